package seal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"sync"

	"nexus/turns"
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

// ErrDifferent: another key is stored under the id.
var ErrDifferent = errors.New("different key")

// ErrOtherStore: the files in the folder are of two stores.
var ErrOtherStore = errors.New("files of two key stores")

var errClosed = errors.New("the key store is closed")

// groupBytes is how many bytes of records one write has at most, unless one record is longer.
const groupBytes = 256 << 10

// Store is a [Keyring] in a folder. One process at a time may have it open, and one Store in
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

// group is what one write has.
type group struct {
	ids  []turns.ID
	keys []Key
	back []bool        // the key may take the place of a damaged one
	inA  chan struct{} // closed when a has the keys, or the write failed
	done chan struct{}
	err  error // after done
}

func newGroup() *group { return &group{inA: make(chan struct{}), done: make(chan struct{})} }

// erasure is what one rewrite destroys.
type erasure struct {
	ids     []turns.ID
	takes   []*take
	done    chan struct{}
	err     error           // after done
	refused map[*take]error // after done
}

// OpenStore opens the key store in dir, and makes it, for its owner's eyes only, if it is
// not there. It mends a damaged copy from the other one. Errors: [turns.ErrCorrupt] where
// no copy of what all keys need is sound, [turns.ErrUnsupported] for files that another
// build wrote, [ErrOtherStore] where the files are of two stores; the disk's.
func OpenStore(dir string) (*Store, error) { return openStore(dir, osDisk{}) }

func openStore(dir string, d disk) (*Store, error) {
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

// Key is the key of id as a whole, [ErrPunctured] where events were taken from it. An error that is none of [turns.ErrErased], [ErrPunctured] and
// [ErrNoKey] says what is wrong with which file; it is [turns.ErrCorrupt] where
// no copy is whole.
func (s *Store) Key(id turns.ID) (Key, error) {
	c, err := s.Content(id)
	return whole(id, c, err)
}

// Content implements [Keyring]. Its errors are those of Key but for [ErrPunctured].
func (s *Store) Content(id turns.ID) (Content, error) {
	s.mu.RLock()
	c, err := s.keys.content(id)
	if s.closed {
		c, err = Content{}, errClosed
	}
	warnings := len(s.warnings)
	s.mu.RUnlock()
	if warnings > 0 {
		s.reportWarnings()
	}
	return c, err
}

func (k keys) content(id turns.ID) (Content, error) {
	if _, ok := k.erased[id]; ok {
		return Content{}, erased(id)
	}
	if err := k.broken[id]; err != nil {
		return Content{}, err
	}
	if left, ok := k.left[id]; ok {
		return Content{left: left}, nil
	}
	if key, ok := k.byID[id]; ok {
		return Content{whole: key}, nil
	}
	if k.lost != nil {
		return Content{}, fmt.Errorf("no key of %s: %w", id, k.lost)
	}
	return Content{}, noKey(id)
}

func (k keys) get(id turns.ID) (Key, error) {
	c, err := k.content(id)
	return whole(id, c, err)
}

// Create is the key of id, made of 32 bytes from rand if there is none yet. It
// is durable, in both copies, when Create returns it. Errors: those of Key but
// for [ErrNoKey], and the disk's; Create can then be called again.
func (s *Store) Create(id turns.ID, rand io.Reader) (Key, error) {
	return s.store(id, false, func() (Key, error) { return newKey(rand) })
}

// Begin is Create for one who goes on while the second copy is written. The key that it returns is
// there after any crash, in one copy. durable waits until it is in both; its error means that
// it may be in one only, until the next call of the store or the next open mends that.
func (s *Store) Begin(id turns.ID, rand io.Reader) (k Key, durable func() error, err error) {
	failed := func(err error) (Key, func() error, error) {
		return Key{}, nil, fmt.Errorf("store the key of %s: %w", id, err)
	}
	for {
		if err := s.recover(); err != nil {
			return failed(err)
		}
		g := s.underWay(id)
		if g == nil {
			if k, err = s.Key(id); !canBeSet(err, false) {
				return k, func() error { return nil }, err
			}
			if k, err = newKey(rand); err != nil {
				return Key{}, nil, err
			}
			var first bool
			if g, first = s.join(id, k, false); first {
				go s.write(g) // Close waits for it
			}
		}
		<-g.inA
		if k, err = s.Key(id); err == nil {
			return k, func() error { <-g.done; return g.err }, nil
		}
		if <-g.done; g.err != nil {
			return failed(g.err)
		}
	}
}

// underWay returns the group of a write that has a key of id, nil if there is none.
func (s *Store) underWay(id turns.ID) *group {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pending[id]
}

// Put stores a key that was made elsewhere, durably like Create. It puts back one that is
// damaged in both copies, unless events were taken from it. Errors: [ErrDifferent] if id has another key;
// [ErrPunctured] where what is left of it is here, or was; those of Create.
func (s *Store) Put(id turns.ID, k Key) error {
	old, err := s.store(id, true, func() (Key, error) { return k, nil })
	if err == nil && old != k {
		return different(id)
	}
	return err
}

// store returns the durable key of id: the one that is there, or else the one that choose makes. With
// back, that takes the place of one that is damaged.
func (s *Store) store(id turns.ID, back bool, choose func() (Key, error)) (Key, error) {
	for {
		if err := s.recover(); err != nil {
			return Key{}, fmt.Errorf("store the key of %s: %w", id, err)
		}
		if g := s.underWay(id); g != nil { // perhaps in a alone
			if <-g.done; g.err != nil {
				return Key{}, fmt.Errorf("store the key of %s: %w", id, g.err)
			}
		}
		k, err := s.Key(id)
		if !canBeSet(err, back) {
			return k, err
		}
		if k, err = choose(); err != nil {
			return Key{}, err
		}
		g, first := s.join(id, k, back)
		if first {
			s.write(g)
		}
		if <-g.done; g.err != nil {
			return Key{}, fmt.Errorf("store the key of %s: %w", id, g.err)
		}
	}
}

// join puts a key into the group of the next write, and reports whether it is the first one
// there: then the caller writes the group. If a write under way or to come has a key for id,
// join returns the group of that.
func (s *Store) join(id turns.ID, k Key, back bool) (g *group, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.pending[id]; g != nil {
		return g, false
	}
	if s.group == nil || (len(s.group.ids)+1)*(recordExtra+len(k)) > groupBytes {
		s.group, first = newGroup(), true
	}
	g = s.group
	g.ids, g.keys, g.back = append(g.ids, id), append(g.keys, k), append(g.back, back)
	s.pending[id] = g
	return g, first
}

// write writes a group, which takes in others until a is free.
func (s *Store) write(g *group) {
	defer close(g.done)
	inA := sync.OnceFunc(func() { close(g.inA) })
	defer inA()
	g.err = s.append(g, inA)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range g.ids {
		delete(s.pending, id)
	}
}

// append writes the records of a group to both copies, and calls inA between. Those whose key came
// to be there, or was destroyed, while the group waited, are left out.
func (s *Store) append(g *group, inA func()) error {
	s.stageA.Lock()
	s.mu.Lock()
	if s.group == g {
		s.group = nil
	}
	err := s.usable()
	var has []int // which of g are written
	for i, id := range g.ids {
		if _, err := s.keys.get(id); canBeSet(err, g.back[i]) {
			has = append(has, i)
		}
	}
	s.mu.Unlock()
	if err != nil || len(has) == 0 {
		s.stageA.Unlock()
		return err
	}
	at, next, path := s.end, s.next, s.logName
	records := make([]byte, 0, len(has)*(recordExtra+len(Key{})))
	for place, i := range has {
		records = s.epoch.append(records, head{kind: recordKey, place: uint16(place), number: next, id: g.ids[i]}, g.keys[i][:])
		next++
	}
	s.next, s.end = next, at+int64(len(records))
	if err := s.disk.WriteAt(path(copyA), records, at); err != nil {
		s.fail(err)
	} else {
		s.mu.Lock()
		for _, i := range has {
			s.keys.byID[g.ids[i]] = g.keys[i]
			delete(s.keys.broken, g.ids[i])
		}
		s.mu.Unlock()
		inA()
	}
	s.stageB.Lock()
	s.stageA.Unlock()
	defer s.stageB.Unlock()
	s.mu.RLock()
	err = s.usable() // an error too if the write before failed in b: this one would leave a gap
	s.mu.RUnlock()
	if err != nil {
		return err
	}
	err = s.disk.WriteAt(path(copyB), records, at)
	if err != nil {
		s.fail(err)
	}
	return err
}

// canBeSet reports whether an id for which get returned err can have a key.
func canBeSet(err error, back bool) bool {
	return errors.Is(err, ErrNoKey) || back && errors.Is(err, turns.ErrCorrupt) && !errors.Is(err, ErrPunctured)
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

// usable returns why nothing can be written. The caller has mu.
func (s *Store) usable() error {
	if s.closed {
		return errClosed
	}
	return s.failed
}

// fail notes that a step failed.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
}

// recover opens the store anew if a step failed since it was opened.
func (s *Store) recover() error {
	s.mu.RLock()
	failed, closed := s.failed, s.closed
	s.mu.RUnlock()
	if closed {
		return errClosed
	}
	if failed == nil {
		return nil
	}
	s.stageA.Lock()
	defer s.stageA.Unlock()
	s.stageB.Lock()
	defer s.stageB.Unlock()
	return s.reload()
}

// reload is recover; the caller has both stages.
func (s *Store) reload() error {
	s.mu.RLock()
	err := s.usable()
	s.mu.RUnlock()
	if err == nil || errors.Is(err, errClosed) {
		return err
	}
	if again := s.load(); again != nil {
		return fmt.Errorf("open the key store %s again after %w: %w", s.dir, err, again)
	}
	return nil
}

// Destroy makes the keys of ids unreadable for ever, here, and durably so when it
// returns nil; until then it is to be called again. No key can be made or put
// under them any more, whether there was one or not. It writes all other keys anew, once
// for all calls that wait.
func (s *Store) Destroy(ids ...turns.ID) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.erase(ids, nil); err != nil {
		return fmt.Errorf("destroy the keys of %v: %w", ids, err)
	}
	return nil
}

// Puncture makes the events at indexes of the chain whose content key id has unreadable for ever, and everything
// else opens as before: what is left of the key takes its place. It is durable, and to be repeated, as [Store.Destroy].
// begun is how many events the chain has: none may be sealed there meanwhile but by who calls.
// Errors: those of [Store.Content]; [turns.ErrTooLarge] where what is left has over [MaxPunctured] bytes.
func (s *Store) Puncture(id turns.ID, begun uint64, indexes ...uint64) error {
	if len(indexes) == 0 {
		return nil
	}
	return s.takeFrom(&take{id: id, begun: begun, indexes: indexes})
}

// PutRemains stores what is left of a key, in the place of the whole one if that is here. Errors: [ErrDifferent]
// if id has another key or something else is left of it; [turns.ErrErased].
func (s *Store) PutRemains(id turns.ID, left *Remains) error {
	return s.takeFrom(&take{id: id, put: left})
}

func (s *Store) takeFrom(t *take) error {
	if err := s.erase(nil, t); err != nil {
		return fmt.Errorf("take from the key of %s: %w", t.id, err)
	}
	return nil
}

// erase has keys destroyed, or something taken from one, by the next rewrite.
func (s *Store) erase(ids []turns.ID, t *take) error {
	s.reportWarnings()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	e, first := s.waiting, s.waiting == nil
	if first {
		e = &erasure{done: make(chan struct{}), refused: make(map[*take]error)}
		s.waiting = e
	}
	e.ids = append(e.ids, ids...)
	if t != nil {
		e.takes = append(e.takes, t)
	}
	s.mu.Unlock()
	if first {
		s.destroy(e)
	}
	<-e.done
	if err := errors.Join(e.err, e.refused[t]); err != nil {
		return err
	}
	s.mu.RLock()
	onDestroy := s.onDestroy
	s.mu.RUnlock()
	for _, f := range onDestroy {
		f()
	}
	return nil
}

// OnDestroy has f called for each key that is destroyed, or from which events are taken, from now on, when Key does
// not return it any more. f must not call s. Who keeps plain content in memory drops it then.
func (s *Store) OnDestroy(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onDestroy = append(s.onDestroy, f)
}

// destroy destroys the keys of an erasure, which takes in others until no write is under way.
func (s *Store) destroy(e *erasure) {
	defer close(e.done)
	s.stageA.Lock()
	defer s.stageA.Unlock()
	s.stageB.Lock()
	defer s.stageB.Unlock()
	s.mu.Lock()
	s.waiting = nil
	s.mu.Unlock()
	if e.err = s.reload(); e.err != nil {
		return
	}
	left, changed := s.keys.after(e) // nobody writes them: we have both stages
	if changed {
		e.err = s.rewrite(left)
	}
}

// rewrite begins a new epoch, which has the keys that are left, and destroys the old one. The
// caller has both stages.
func (s *Store) rewrite(left keys) error {
	number := uint64(1)
	var store storeID
	if s.epoch != nil {
		number, store = s.epoch.number+1, s.epoch.store // nothing is there of it: a step that failed made reload sweep it away
	} else if _, err := io.ReadFull(rand.Reader, store[:]); err != nil {
		return err
	}
	key, err := newKey(rand.Reader)
	if err != nil {
		return err
	}
	e := newEpoch(number, store, key)
	log, next := left.encode(e)
	committed, err := s.publish(e, log)
	if committed { // perhaps: nothing is sealed under these keys any more
		s.mu.Lock()
		s.keys = left
		s.mu.Unlock()
	}
	if err == nil {
		s.epoch, s.next, s.end = e, next, int64(len(log))
		err = s.sweep(number)
	}
	if err != nil {
		s.fail(err)
	}
	return err
}

// after returns k as an erasure leaves it, and notes what it refuses. Where nothing changes, it returns k itself.
func (k keys) after(e *erasure) (out keys, changed bool) {
	out = k
	change := func(id turns.ID) {
		if !changed {
			out, changed = k.clone(), true
		}
		delete(out.byID, id)
		delete(out.left, id)
		delete(out.broken, id)
	}
	for _, id := range e.ids {
		if _, ok := out.erased[id]; !ok {
			change(id)
			out.erased[id] = struct{}{}
		}
	}
	for _, t := range e.takes {
		has, there := out.content(t.id)
		left, isNew, err := t.of(has, there)
		if err != nil {
			e.refused[t] = err
		} else if isNew {
			change(t.id)
			out.left[t.id] = left
		}
	}
	return out, changed
}

func (k keys) clone() keys {
	return keys{byID: maps.Clone(k.byID), left: maps.Clone(k.left), erased: maps.Clone(k.erased), broken: maps.Clone(k.broken), lost: k.lost}
}

// encode returns the log that has k, and the number of its next record.
func (k keys) encode(e *epoch) (log []byte, next uint64) {
	next = 1
	log = append(make([]byte, 0, headerSize+(len(k.byID)+1)*(recordExtra+len(Key{}))+(len(k.erased)+len(k.broken))*recordExtra), e.header...)
	add := func(kind recordKind, id turns.ID, body []byte) {
		log = e.append(log, head{kind: kind, number: next, id: id}, body)
		next++
	}
	for id := range k.erased {
		add(recordDestroyed, id, nil)
	}
	for id, err := range k.broken {
		if errors.Is(err, ErrPunctured) {
			add(recordLeft, id, nil)
		} else {
			add(recordLost, id, nil)
		}
	}
	if k.lost != nil {
		add(recordLost, turns.ID{}, nil)
	}
	for id, left := range k.left {
		if k.broken[id] == nil {
			add(recordLeft, id, left.encode())
		}
	}
	for id, key := range k.byID {
		if k.broken[id] == nil && k.left[id] == nil {
			add(recordKey, id, key[:])
		}
	}
	return log, next
}

// reportWarnings reports what was mended to Warn.
func (s *Store) reportWarnings() {
	if s.Warn == nil {
		return
	}
	s.mu.Lock()
	warnings := s.warnings
	s.warnings = nil
	s.mu.Unlock()
	for _, err := range warnings {
		s.Warn(err)
	}
}

func (s *Store) warn(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, err)
}
