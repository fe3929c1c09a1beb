package keyring

import (
	"fmt"
	"path/filepath"
	"sync"

	"nexus/turns"
	"nexus/turns/seal"
)

// Crash states of the key store.
//
// All keys are in one log, of which a/ and b/ have a copy each with the same bytes. Its
// records are sealed under the key of its epoch, which has a file of its own:
//
//	a/N.epoch, b/N.epoch   the key of epoch N (N is 16 hex digits)
//	a/N.log, b/N.log       the log: a header, then records, each checked by itself
//	a/N.log.new, …         a log that is not the log yet
//
// The epoch is the highest one of which a/ or b/ has N.log. The steps of a call are done
// in the order given here, and a crash, power cut or failed step leaves:
//
// Create, Put: the records of all callers who wait are one write. Write it at the end of
// the log in a, sync; the same in b; return. The next write may begin in a while this one is
// in b. So what b has any byte of is whole and durable in a, and no crash damages a record
// in both.
//
//	a in part, or in any sectors   no key. The next open cuts a where the first damaged
//	                               record of the write begins, and copies to b what is
//	                               whole before: keys that no Create had returned, which
//	                               the next Create returns.
//	a, and b in part or not        keys. The next open writes b from a. Begin returned, and an
//	                               event may be stored under the key.
//	both, but a sync failed        keys, though perhaps not durable ones. A page whose
//	                               sync failed reads as written and is never synced
//	                               again. So after any failed step the store does nothing
//	                               before it has opened itself anew, and an open writes
//	                               the last write of each copy once more, and syncs it.
//
// A write that is damaged where b has bytes of it, or of which a record of a later write
// is found, is no torn one: that is damage.
//
// Destroy: all who wait share one rewrite, for which appends wait. With N+1 for the next epoch:
//
//	 1. write a/N+1.epoch, a/N+1.log.new, sync them, sync a; the same in b.
//	    The log has a tombstone for each destroyed key, and the keys that are left.
//	 2. rename a/N+1.log.new to a/N+1.log, sync a; the same in b.
//	 3. for a and b: write zeros over N.epoch, sync, unlink it; sync the folder.
//	 4. the same with N.log, and whatever else is there of an epoch that is not N+1.
//	 5. return.
//
//	before a rename in 2       the keys, as they were. The new epoch's files, which hold
//	                           them too, are destroyed like old ones by the next open, with
//	                           which the next Destroy begins.
//	one rename of two          destroyed: the next open writes the copy whose log has no
//	                           name yet from the other one; then 3 and 4.
//	after 2                    destroyed: the next open does 3 and 4, and so the next
//	                           Destroy, also of the same key, before it returns.
//
// Puncture, PutRemains: as Destroy, and with it. In the log of step 1 the key has made room for what is left of
// it, so a crash leaves the whole key or what is left, and after 2 never the whole key: what is left wins over a
// key of the id, and so does a record of it that is damaged.
//
// Each file names the store that it is of. Where two name different ones, an open changes nothing
// and refuses: the copy of another folder, with a higher epoch, would have ours destroyed.
//
// Open: the epoch key's copies mended; the log's copies mended, a first; then 3 and 4. Each step writes one copy from the other one, or writes the bytes that
// are there, so a crash leaves it to be done again. The first open of a folder is steps 1
// and 2 with an empty log; a crash before the rename leaves an epoch 1 without a log,
// which is made anew; where b/1.epoch is there and no 1.log.new in a or b, the log was there and is gone.
//
// So: a key that Begin, Create or Put returned is there after any crash; a key that
// Destroy returned for is nowhere; in between the call can be made again.
// A record damaged in both copies, or whole and different, is no crash state: Key says so
// and names the files, and nothing is written over it; other keys go on. Only a rewrite
// drops the damaged bytes: it must destroy what its epoch sealed. It keeps a mark of the loss.
//
// Zeros are written over the blocks that the file has. A file system or drive
// that writes elsewhere (copy on write, flash) may keep the old ones until it
// reuses them; then the log there is unreadable only if its epoch key is not kept too: put
// the folder on an encrypted volume where that matters.

// Store is a [seal.Keyring] in a folder. One process at a time may have it open, and one Store in
// it: the caller keeps others out (nexusd locks its data folder). An open reads all keys, and
// they stay in memory, 75 to 120 bytes each.
type Store struct {
	// Warn, if set before the first use, hears of what went wrong but was made
	// good. What the open itself mended it hears at the first use.
	Warn func(error)

	dir  string
	disk disk

	// A write has stageA, then stageB, then mu; it takes stageB before it leaves stageA. A
	// rewrite and an open have both stages.
	stageA sync.Mutex // guards next and end
	stageB sync.Mutex
	epoch  *epoch // changed under both stages
	next   uint64 // number of the next record
	end    int64  // of the log, bytes

	mu        sync.RWMutex
	closed    bool
	failed    error // of the step since which the disk may be otherwise than memory; nil
	keys      keys
	group     *group              // what the next write has
	pending   map[turns.ID]*group // which group has a key of the id that is not in keys yet
	waiting   *erasure            // what the next rewrite destroys
	warnings  []error             // that Warn has not heard of
	onDestroy []func()
}

// Open opens the key store in dir, and makes it, for its owner's eyes only, if it is
// not there. It mends a damaged copy from the other one. Errors: [turns.ErrCorrupt] where
// no copy of what all keys need is sound, [turns.ErrUnsupported] for files that another
// build wrote, [ErrOtherStore] where the files are of two stores; the disk's.
func Open(dir string) (*Store, error) { return open(dir, osDisk{}) }

func open(dir string, d disk) (*Store, error) {
	s := &Store{dir: filepath.Clean(dir), disk: d, keys: newKeys(), pending: make(map[turns.ID]*group)}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("open the key store %s: %w", s.dir, err)
	}
	return s, nil
}

// Close waits for the writes under way, and forgets the keys in memory. Calls after it fail.
func (s *Store) Close() error {
	s.stageA.Lock()
	defer s.stageA.Unlock()
	s.stageB.Lock()
	defer s.stageB.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.keys = newKeys()
	return nil
}

// Key is the key of id as a whole, [seal.ErrPunctured] where events were taken from it. An error that is none of [turns.ErrErased], [seal.ErrPunctured] and
// [seal.ErrNoKey] says what is wrong with which file; it is [turns.ErrCorrupt] where
// no copy is whole.
func (s *Store) Key(id turns.ID) (seal.Key, error) {
	c, err := s.Content(id)
	return whole(id, c, err)
}

// Content implements [seal.Keyring]. Its errors are those of Key but for [seal.ErrPunctured].
func (s *Store) Content(id turns.ID) (seal.Content, error) {
	s.mu.RLock()
	c, err := s.keys.content(id)
	if s.closed {
		c, err = seal.Content{}, errClosed
	}
	warnings := len(s.warnings)
	s.mu.RUnlock()
	if warnings > 0 {
		s.reportWarnings()
	}
	return c, err
}

// IDs are those that have a key, or what is left of one, and those whose key was destroyed, in any order.
func (s *Store) IDs() (have, destroyed []turns.ID) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id := range s.keys.byID {
		if _, err := s.keys.get(id); err == nil {
			have = append(have, id)
		}
	}
	for id := range s.keys.left {
		if _, err := s.keys.content(id); err == nil {
			have = append(have, id)
		}
	}
	for id := range s.keys.erased {
		destroyed = append(destroyed, id)
	}
	return have, destroyed
}

// OnDestroy has f called for each key that is destroyed, or from which events are taken, from now on, when Key does
// not return it any more. f must not call s. Who keeps plain content in memory drops it then.
func (s *Store) OnDestroy(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onDestroy = append(s.onDestroy, f)
}
