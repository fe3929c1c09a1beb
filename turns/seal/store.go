package seal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"nexus/turns"
)

// Crash states of the key store.
//
// All keys are records of one log, N.keys, sealed under a key of its own, N.epoch. Both
// files are in two copies, below a/ and below b/, with the same bytes. A record is a slot
// of 128 bytes that is checked by itself. N is the epoch: it goes up where a key is
// destroyed. The steps of a call are done in the order given here, for all calls that wait
// together, and a crash, power cut or failed step leaves:
//
// Create, Put: write the slots behind the end of a/N.keys and of b/N.keys, both at once;
// sync both; return.
//
//	a slot in no copy              no key. A slot that is cut or zero is behind
//	                               the end: the next write goes over it.
//	a slot in one copy             a key. Opening completes the other copy.
//	both, but the call failed      a key after a crash. In the process that goes on
//	                               none: the next write cuts the log at its end
//	                               before it syncs, so that no two keys of an id
//	                               can be there.
//
// Destroy: write records that say it, like a key; then begin epoch N+1, without the keys:
// in a, then in b: write N+1.epoch and N+1.keys.new, sync both, sync the folder, rename
// N+1.keys.new to N+1.keys, sync the folder; then end epoch N: in a and b write zeros over
// N.epoch, sync it, unlink it and N.keys, sync the folder; return.
//
//	before a record says it        the key, as it was.
//	a record in one copy or more   destroyed. Opening does the rest again.
//	N+1.keys in one copy           it is the log: its bytes were synced before it had
//	                               its name, and its epoch key too. Opening completes
//	                               the other copy, and ends epoch N.
//	N+1.epoch or N+1.keys.new,     nobody reads them. Opening writes zeros over them and
//	no N+1.keys                    unlinks them.
//
// Opening, a copy that is broken or missing: write the copy from the other one, in place. A
// crash leaves that copy broken or missing. The good one is not touched.
//
// So: a key that Create or Put returned is there after any crash; a key that Destroy
// returned for is in no log that a key is left for; in between the call can be made again.
// A slot that is broken in both copies is no crash state (a slot lies in one sector): Key
// says so of the id that it names, and nothing is written over it. Where the slots at the
// very end are all zero in both copies, they count as not written.
//
// Zeros are written over the blocks that the file of the epoch key has. A file system or
// drive that writes elsewhere (copy on write, flash) may keep the old ones until it reuses
// them: put the folder on an encrypted volume where that matters.

// ErrDifferent: another key is stored under the id.
var ErrDifferent = errors.New("different key")

var errClosed = errors.New("the key store is closed")

// The two copies, and the endings of the files of an epoch.
const (
	copyA = "a"
	copyB = "b"

	logFile   = ".keys"
	epochFile = ".epoch"
	newSuffix = ".new"
)

var copies = [2]string{copyA, copyB}

// Store is a [Keyring] in a folder. One process at a time may have it open. All keys are
// in memory, about 100 bytes each; opening reads them all.
type Store struct {
	dir  string
	disk disk
	warn func(error)

	mu        sync.RWMutex
	closed    bool
	entries   map[turns.ID]entry
	onDestroy []func()
	waiting   []*change
	changing  map[turns.ID]*change // those that wait or are written
	writing   bool                 // somebody writes for all who wait

	// Of who writes.
	epoch   epoch
	end     int      // slots of the log
	old     []uint64 // epochs that are not ended yet
	highest uint64   // number of an epoch that has a file, or had
	renewal bool     // an epoch could not be begun: its log may have a name, so nothing more goes to this one
}

// change is a call that waits for the disk.
type change struct {
	id   turns.ID
	to   entry
	done chan struct{}
	err  error
}

// OpenStore opens the key store in dir, and makes it, for its owner's eyes only, if it is
// not there. warn, if not nil, hears of what was wrong and was made good: a copy repaired.
//
// Errors: [turns.ErrCorrupt] if no copy of the log, or of its epoch key, can be read;
// [turns.ErrUnsupported] if another build made the folder.
func OpenStore(dir string, warn func(error)) (*Store, error) { return openStore(dir, osDisk{}, warn) }

func openStore(dir string, d disk, warn func(error)) (*Store, error) {
	s := &Store{dir: filepath.Clean(dir), disk: d, warn: warn, changing: make(map[turns.ID]*change)}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open the key store %s: %w", s.dir, err)
	}
	return s, nil
}

func (s *Store) open() error {
	for _, name := range []string{s.dir, s.side(0), s.side(1)} {
		if err := s.disk.Mkdir(name); err != nil {
			return err
		}
		if err := s.disk.SyncDir(filepath.Dir(name)); err != nil {
			return err
		}
	}
	current, others, err := s.epochs()
	if err != nil {
		return err
	}
	s.old, s.highest = others, current
	for _, n := range others {
		s.highest = max(s.highest, n)
	}
	if current == 0 {
		s.entries = make(map[turns.ID]entry)
		if err := s.begin(nil); err != nil {
			return err
		}
		return s.endOld()
	}
	k, err := s.readEpoch(current)
	if err != nil {
		return err
	}
	s.epoch = epoch{current, gcm(k)}
	var found [2][]byte
	var errs [2]error
	for i := range copies {
		found[i], errs[i] = s.disk.Read(s.path(i, current, logFile))
		if errs[i] != nil && !isMissing(errs[i]) {
			return errs[i]
		}
	}
	m, err := s.epoch.merge(found)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", s.path(0, current, logFile), s.path(1, current, logFile), err)
	}
	for i := range copies {
		if string(found[i]) == string(m.want[i]) {
			continue
		}
		if err := s.complete(i, s.path(i, current, logFile), m.want[i], found[i] == nil); err != nil {
			return err
		}
		if cut := len(found[i]) - len(m.want[i]); cut <= 0 || string(found[i][:len(m.want[i])]) != string(m.want[i]) {
			s.tell("%s was damaged, or ended too early: repaired from the other copy", s.path(i, current, logFile))
		}
	}
	s.entries, s.end = m.entries, m.slots
	if m.unfinished {
		return s.renew(nil)
	}
	return s.endOld()
}

// epochs are the number of the log, 0 if there is none, and those of all other files.
func (s *Store) epochs() (current uint64, others []uint64, err error) {
	seen := make(map[uint64]bool)
	for i := range copies {
		names, err := s.disk.List(s.side(i))
		if err != nil {
			return 0, nil, err
		}
		for _, name := range names {
			digits, kind, _ := strings.Cut(name, ".")
			n, err := strconv.ParseUint(digits, 10, 64)
			if kind = "." + kind; err != nil || n == 0 || kind != logFile && kind != epochFile && kind != logFile+newSuffix {
				return 0, nil, fmt.Errorf("%w: %s is no file of a key store as this build makes it", turns.ErrUnsupported, filepath.Join(s.side(i), name))
			}
			if seen[n] = true; kind == logFile {
				current = max(current, n)
			}
		}
	}
	delete(seen, current)
	for n := range seen {
		others = append(others, n)
	}
	return current, others, nil
}

// readEpoch reads the key of an epoch, and repairs one copy from the other.
func (s *Store) readEpoch(number uint64) (Key, error) {
	var keys [2]Key
	var errs [2]error
	for i := range copies {
		var b []byte
		if b, errs[i] = s.disk.Read(s.path(i, number, epochFile)); errs[i] == nil {
			keys[i], errs[i] = decodeEpoch(b, number)
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", s.path(i, number, epochFile), errs[i])
		}
	}
	switch {
	case errs[0] != nil && errs[1] != nil:
		return Key{}, fmt.Errorf("%w: no copy of the epoch key can be read: %w; %w", turns.ErrCorrupt, errs[0], errs[1])
	case errs[0] == nil && errs[1] == nil && keys[0] != keys[1]:
		return Key{}, fmt.Errorf("%w: %s and %s hold different keys", turns.ErrCorrupt, s.path(0, number, epochFile), s.path(1, number, epochFile))
	}
	good := 0
	if errs[0] != nil {
		good = 1
	}
	if bad := 1 - good; errs[bad] != nil {
		if !isMissing(errs[bad]) && !errors.Is(errs[bad], turns.ErrCorrupt) {
			return Key{}, errs[bad] // it may pass
		}
		if err := s.complete(bad, s.path(bad, number, epochFile), encodeEpoch(number, keys[good]), isMissing(errs[bad])); err != nil {
			return Key{}, err
		}
		s.tell("%w: repaired from the other copy", errs[bad])
	}
	return keys[good], nil
}

// complete writes a copy from the other one.
func (s *Store) complete(side int, name string, b []byte, isNew bool) error {
	if err := s.disk.Write(name, b); err != nil || !isNew {
		return err
	}
	return s.disk.SyncDir(s.side(side))
}

// Close forgets the keys in memory. Calls after it fail.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.entries = true, nil
	return nil
}

// Key implements [Keyring]. It reads no file. Besides [turns.ErrErased] and [ErrNoKey] its
// errors are [turns.ErrCorrupt], where a key was lost from both copies of the log.
func (s *Store) Key(id turns.ID) (Key, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.look(id)
}

func (s *Store) look(id turns.ID) (Key, error) {
	if s.closed {
		return Key{}, errClosed
	}
	switch x := s.entries[id]; x.kind {
	case recordKey:
		return x.key, nil
	case recordDestroyed:
		return Key{}, erased(id)
	case recordLost:
		return Key{}, fmt.Errorf("%w: the key of %s: its record is damaged in both copies, %s and %s", turns.ErrCorrupt, id,
			s.path(0, s.epoch.number, logFile), s.path(1, s.epoch.number, logFile))
	}
	return Key{}, noKey(id)
}

// Create is the key of id, made of 32 bytes from rand if there is none yet. It
// is durable, in both copies, when Create returns it. Errors: those of Key but
// for [ErrNoKey], and the disk's; Create can then be called again.
func (s *Store) Create(id turns.ID, rand io.Reader) (Key, error) {
	return s.store(id, func(old *Key) (Key, error) {
		if old != nil {
			return *old, nil
		}
		return newKey(rand)
	})
}

// Put stores a key that was made elsewhere, durably like Create. It puts back one that was
// lost from both copies. Errors: [ErrDifferent] if id has another key, and those of Create.
func (s *Store) Put(id turns.ID, k Key) error {
	s.mu.RLock()
	lost := s.entries[id].kind == recordLost
	s.mu.RUnlock()
	if lost {
		return s.change(id, entry{recordKey, k})
	}
	_, err := s.store(id, func(old *Key) (Key, error) {
		if old != nil && *old != k {
			return Key{}, different(id)
		}
		return k, nil
	})
	return err
}

// store makes the key that choose picks, given the one that is there, durable.
func (s *Store) store(id turns.ID, choose func(old *Key) (Key, error)) (Key, error) {
	for {
		s.mu.Lock()
		have, err := s.look(id)
		if err == nil {
			s.mu.Unlock()
			return choose(&have)
		}
		if !errors.Is(err, ErrNoKey) {
			s.mu.Unlock()
			return Key{}, err
		}
		if c := s.changing[id]; c != nil { // somebody makes it
			s.mu.Unlock()
			<-c.done
			continue
		}
		k, err := choose(nil)
		if err != nil {
			s.mu.Unlock()
			return Key{}, err
		}
		if err := s.enter(&change{id: id, to: entry{recordKey, k}, done: make(chan struct{})}); err != nil {
			return Key{}, fmt.Errorf("store the key of %s: %w", id, err)
		}
		return k, nil
	}
}

// Destroy makes the key of id unreadable for ever, here, and durably so when it
// returns nil; until then it is to be called again. No key can be made or put
// under id any more, whether there was one or not.
func (s *Store) Destroy(id turns.ID) error {
	if err := s.change(id, entry{kind: recordDestroyed}); err != nil {
		return fmt.Errorf("destroy the key of %s: %w", id, err)
	}
	s.mu.RLock()
	onDestroy := s.onDestroy
	s.mu.RUnlock()
	for _, f := range onDestroy {
		f()
	}
	return nil
}

// change waits until nobody else changes id, and writes x.
func (s *Store) change(id turns.ID, x entry) error {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return errClosed
		}
		c := s.changing[id]
		if c == nil {
			return s.enter(&change{id: id, to: x, done: make(chan struct{})})
		}
		s.mu.Unlock()
		<-c.done
	}
}

// enter has a change written together with all others that wait. The caller holds the
// lock; enter lets go of it.
func (s *Store) enter(c *change) error {
	s.waiting = append(s.waiting, c)
	s.changing[c.id] = c
	if s.writing {
		s.mu.Unlock()
		<-c.done
		return c.err
	}
	s.writing = true
	for len(s.waiting) > 0 {
		group := s.waiting
		s.waiting = nil
		s.mu.Unlock()
		err := s.write(group)
		s.mu.Lock()
		for _, c := range group {
			delete(s.changing, c.id)
			c.err = err
			close(c.done)
		}
	}
	s.writing = false
	s.mu.Unlock()
	return c.err
}

// write appends the records of a group. Where one destroys a key, it begins another epoch.
func (s *Store) write(group []*change) error {
	if s.renewal {
		return s.renew(group)
	}
	var b []byte
	destroys := false
	for i, c := range group {
		b = s.epoch.appendRecord(b, s.end+i, c.id, c.to)
		destroys = destroys || c.to.kind == recordDestroyed
	}
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { errs[1] = s.disk.Append(s.path(1, s.epoch.number, logFile), s.end*slotSize, b) })
	errs[0] = s.disk.Append(s.path(0, s.epoch.number, logFile), s.end*slotSize, b)
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	s.end += len(group)
	s.apply(group)
	if !destroys {
		return nil
	}
	return s.renew(nil)
}

func (s *Store) apply(group []*change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range group {
		if !s.closed {
			s.entries[c.id] = c.to
		}
	}
}

// renew begins another epoch, with what is left and a group of changes, and ends those
// before it.
func (s *Store) renew(group []*change) error {
	was := s.epoch.number
	if err := s.begin(group); err != nil {
		return err
	}
	s.old = append(s.old, was)
	return s.endOld()
}

// begin writes an epoch's key and log in both copies. The log is named last. Where it
// fails the epoch may be there after a crash, so only another one can follow.
func (s *Store) begin(group []*change) error {
	if s.highest > 0 && s.highest != s.epoch.number {
		s.old = append(s.old, s.highest)
	}
	s.highest++
	number := s.highest
	s.renewal = true
	var k Key
	rand.Read(k[:]) // never fails
	e := epoch{number, gcm(k)}
	s.mu.RLock()
	left, closed := maps.Clone(s.entries), s.closed
	s.mu.RUnlock()
	if closed {
		return errClosed
	}
	for _, c := range group {
		left[c.id] = c.to
	}
	b := e.encode(left)
	for i := range copies {
		log := s.path(i, number, logFile)
		if err := s.disk.Write(s.path(i, number, epochFile), encodeEpoch(number, k)); err != nil {
			return err
		}
		if err := s.disk.Write(log+newSuffix, b); err != nil {
			return err
		}
		if err := s.disk.SyncDir(s.side(i)); err != nil {
			return err
		}
		if err := s.disk.Rename(log+newSuffix, log); err != nil {
			return err
		}
		if err := s.disk.SyncDir(s.side(i)); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.epoch = e
	s.mu.Unlock()
	s.end, s.renewal = len(b)/slotSize, false
	s.apply(group)
	return nil
}

// endOld destroys the keys of all epochs but the current one.
func (s *Store) endOld() error {
	for len(s.old) > 0 {
		n := s.old[len(s.old)-1]
		if n == s.epoch.number {
			s.old = s.old[:len(s.old)-1]
			continue
		}
		for i := range copies {
			if err := s.scrub(s.path(i, n, epochFile)); err != nil {
				return err
			}
			for _, name := range []string{s.path(i, n, logFile), s.path(i, n, logFile) + newSuffix} {
				if err := s.disk.Remove(name); err != nil && !isMissing(err) {
					return err
				}
			}
			if err := s.disk.SyncDir(s.side(i)); err != nil {
				return err
			}
		}
		s.old = s.old[:len(s.old)-1]
	}
	return nil
}

// scrub writes zeros over an epoch key and unlinks it; a missing file is fine.
func (s *Store) scrub(path string) error {
	b, err := s.disk.Read(path)
	if isMissing(err) {
		return nil
	}
	if err := s.disk.Write(path, make([]byte, max(len(b), epochSize))); err != nil {
		return err
	}
	return s.disk.Remove(path)
}

// IDs are those that have a key.
func (s *Store) IDs() (ids []turns.ID) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id, x := range s.entries {
		if x.kind == recordKey {
			ids = append(ids, id)
		}
	}
	return ids
}

// OnDestroy has f called for each key that is destroyed from now on, when Key does not
// return it any more. f must not call s. Who keeps plain content in memory drops it then.
func (s *Store) OnDestroy(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onDestroy = append(s.onDestroy, f)
}

func (s *Store) side(i int) string { return filepath.Join(s.dir, copies[i]) }

func (s *Store) path(side int, number uint64, ending string) string {
	return filepath.Join(s.side(side), strconv.FormatUint(number, 10)+ending)
}

func (s *Store) tell(format string, args ...any) {
	if s.warn != nil {
		s.warn(fmt.Errorf("key store: "+format, args...))
	}
}
