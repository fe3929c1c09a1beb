package seal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"nexus/turns"
)

// Crash states of the key store.
//
// Each key is in two files, one below a/ and one below b/, with the same bytes:
// a check tells a whole file from a broken one. A file gets its name by a rename
// after its bytes are synced; then its folder is synced. The steps of a call are
// done in the order given here, and a crash, power cut or failed step leaves:
//
// Create, Put: write a/new, rename to a/key, sync a; the same in b; return.
//
//	before a/key has its name      nothing, or a/new, which nobody reads and the
//	                               next try writes over. No key; the next
//	                               Create makes another. Nothing was sealed
//	                               under the first: Create had not returned.
//	a/key without b/key            a key. The next read makes b from a; the
//	                               next Create returns it.
//	both, but the call failed      a key, though perhaps not a durable one: a
//	(a sync did not succeed)       Create or Put that finds a key syncs both
//	                               folders before it says so.
//
// Key, one copy broken or missing: write the copy from the other one, in place
// if it is broken, else like Create. A crash leaves that copy broken or missing.
// The good copy is not touched.
//
// Destroy: write the tombstone in a, then in b, like a key; then for a and b
// write zeros over key and new, sync them, unlink them, sync the folder; return.
//
//	before a tombstone has a name  the key, as it was.
//	one tombstone or more          destroyed: a tombstone is looked for before
//	                               the key, and one of two is enough. The next
//	                               Key or Destroy does the rest again.
//
// So: a key that Create or Put returned is there after any crash; a key that
// Destroy returned for is nowhere; in between the call can be made again.
// Both copies broken, or whole and different, is no crash state: Key says so
// and names the files, and nothing is written over them.
//
// Zeros are written over the blocks that the file has. A file system or drive
// that writes elsewhere (copy on write, flash) may keep the old ones until it
// reuses them: put the folder on an encrypted volume where that matters.

// ErrDifferent: another key is stored under the id.
var ErrDifferent = errors.New("different key")

var errClosed = errors.New("the key store is closed")

// Store is a [Keyring] in a folder. One process at a time may have it open.
// Nothing scans the folder: opening takes the same time whatever it holds, and
// keys lie in 256 folders, by the first byte of the SHA-256 of their id.
type Store struct {
	// Warn, if set before the first use, hears of what went wrong but was made
	// good, or will be at the next read: a copy repaired, a repair that failed.
	Warn func(error)

	dir  string
	disk disk

	mu        sync.Mutex
	closed    bool
	cache     *keyCache
	locks     map[turns.ID]*keyLock // of the keys whose files are read or written
	created   map[string]bool       // folders that are durable in their parent
	onDestroy []func()
}

// keyLock is held while files of one key are read or written.
type keyLock struct {
	sync.Mutex
	users int // who hold it or wait for it; guarded by Store.mu
}

// OpenStore opens the key store in dir, and makes it, for its owner's eyes
// only, if it is not there.
func OpenStore(dir string) (*Store, error) { return openStore(dir, osDisk{}) }

func openStore(dir string, d disk) (*Store, error) {
	dir = filepath.Clean(dir)
	s := &Store{dir: dir, disk: d, cache: newKeyCache(cachedKeys), locks: make(map[turns.ID]*keyLock), created: make(map[string]bool)}
	for _, name := range []string{dir, filepath.Join(dir, copyA), filepath.Join(dir, copyB)} {
		if err := s.folder(name); err != nil {
			return nil, fmt.Errorf("open the key store %s: %w", dir, err)
		}
	}
	return s, nil
}

// Close forgets the keys in memory. Calls after it fail.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cache.clear()
	return nil
}

// Key implements [Keyring]. An error that is neither [turns.ErrErased] nor
// [ErrNoKey] says what is wrong with which file; it is [turns.ErrCorrupt] where
// no copy is whole.
func (s *Store) Key(id turns.ID) (Key, error) {
	if c, ok, err := s.known(id); ok || err != nil {
		return c.key, err
	}
	defer s.hold(id)()
	return s.read(id)
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

// Put stores a key that was made elsewhere, durably like Create. Errors:
// [ErrDifferent] if id has another key, and those of Create.
func (s *Store) Put(id turns.ID, k Key) error {
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
	c, ok, err := s.known(id)
	if err != nil {
		return Key{}, err
	}
	if ok && c.durable {
		return choose(&c.key)
	}
	defer s.hold(id)()
	have, err := s.read(id)
	old := &have
	if errors.Is(err, ErrNoKey) {
		old = nil
	} else if err != nil {
		return Key{}, err
	}
	k, err := choose(old)
	if err != nil {
		return Key{}, err
	}
	for _, side := range copies {
		if old == nil {
			err = s.publish(s.path(side, id, keyFile), encodeKey(id, k))
		} else {
			err = s.settle(s.path(side, id, keyFile), encodeKey(id, k))
		}
		if err != nil {
			return Key{}, fmt.Errorf("store the key of %s: %w", id, err)
		}
	}
	s.remember(id, cached{key: k, durable: true})
	return k, nil
}

// Destroy makes the key of id unreadable for ever, here, and durably so when it
// returns nil; until then it is to be called again. No key can be made or put
// under id any more, whether there was one or not.
func (s *Store) Destroy(id turns.ID) error {
	if _, _, err := s.known(id); errors.Is(err, errClosed) {
		return err
	}
	defer s.hold(id)()
	s.forget(id)
	if err := s.destroy(id); err != nil {
		return fmt.Errorf("destroy the key of %s: %w", id, err)
	}
	s.remember(id, cached{erased: true})
	s.mu.Lock()
	onDestroy := s.onDestroy
	s.mu.Unlock()
	for _, f := range onDestroy {
		f()
	}
	return nil
}

// OnDestroy has f called for each key that is destroyed from now on, when Key does not
// return it any more. f must not call s. Who keeps plain content in memory drops it then.
func (s *Store) OnDestroy(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onDestroy = append(s.onDestroy, f)
}

func (s *Store) destroy(id turns.ID) error {
	for _, side := range copies {
		if err := s.publish(s.path(side, id, tombFile), encodeTomb(id)); err != nil {
			return err
		}
	}
	for _, side := range copies {
		for _, kind := range []string{keyFile, keyFile + newSuffix} {
			if err := s.scrub(s.path(side, id, kind)); err != nil {
				return err
			}
		}
		if err := s.disk.SyncDir(filepath.Dir(s.path(side, id, keyFile))); err != nil {
			return err
		}
	}
	return nil
}

// read reads both copies and repairs one from the other. The caller holds the key's lock.
func (s *Store) read(id turns.ID) (Key, error) {
	if c, ok, err := s.known(id); ok || err != nil { // while we waited for the lock
		return c.key, err
	}
	if gone, err := s.buried(id); gone || err != nil {
		if gone {
			err = erased(id)
		}
		return Key{}, err
	}
	var keys [2]Key
	var errs [2]error
	for i, side := range copies {
		keys[i], errs[i] = s.load(side, id)
	}
	missing := func(i int) bool { return errors.Is(errs[i], fs.ErrNotExist) }
	switch {
	case errs[0] == nil && errs[1] == nil && keys[0] != keys[1]:
		return Key{}, fmt.Errorf("%w: the key of %s: %s and %s hold different keys", turns.ErrCorrupt, id,
			s.path(copyA, id, keyFile), s.path(copyB, id, keyFile))
	case missing(0) && missing(1):
		return Key{}, noKey(id)
	case errs[0] != nil && errs[1] != nil:
		return Key{}, fmt.Errorf("the key of %s: no copy can be read: %w; %w", id, errs[0], errs[1])
	case errs[0] != nil:
		s.repair(copyA, id, keys[1], errs[0])
		keys[0] = keys[1]
	case errs[1] != nil:
		s.repair(copyB, id, keys[0], errs[1])
	}
	s.remember(id, cached{key: keys[0]})
	return keys[0], nil
}

// buried reports whether there is a tombstone, and finishes what a Destroy
// left half done.
func (s *Store) buried(id turns.ID) (bool, error) {
	found, left := 0, 0
	for _, side := range copies {
		switch _, err := s.disk.Read(s.path(side, id, tombFile)); {
		case err == nil:
			found++
		case !errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("the key of %s: is it destroyed? %w", id, err)
		}
	}
	if found == 0 {
		return false, nil
	}
	for _, side := range copies {
		for _, kind := range []string{keyFile, keyFile + newSuffix} {
			if _, err := s.disk.Read(s.path(side, id, kind)); !errors.Is(err, fs.ErrNotExist) {
				left++
			}
		}
	}
	if found < len(copies) || left > 0 {
		if err := s.destroy(id); err != nil {
			s.warn(fmt.Errorf("finish to destroy the key of %s: %w", id, err))
			return true, nil
		}
	}
	s.remember(id, cached{erased: true})
	return true, nil
}

// repair makes one copy from the other, whose key is k. Only what is missing
// or fails its check is written: any other error may pass.
func (s *Store) repair(side string, id turns.ID, k Key, why error) {
	path := s.path(side, id, keyFile)
	var err error
	switch {
	case errors.Is(why, fs.ErrNotExist):
		err = s.publish(path, encodeKey(id, k))
	case errors.Is(why, turns.ErrCorrupt):
		err = s.disk.Write(path, encodeKey(id, k)) // in place: a rename would leave most of the key in a free block
	default:
		err = errors.New("left as it is")
	}
	if err != nil {
		s.warn(fmt.Errorf("key store: %w; repair: %w", why, err))
		return
	}
	s.warn(fmt.Errorf("key store: %w; repaired from the other copy", why))
}

func (s *Store) load(side string, id turns.ID) (Key, error) {
	path := s.path(side, id, keyFile)
	b, err := s.disk.Read(path)
	if err != nil {
		return Key{}, err
	}
	k, err := decodeKey(b, id)
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// publish writes a whole file under a name that it gets only when its bytes
// are durable, and makes the name durable.
func (s *Store) publish(path string, b []byte) error {
	if err := s.folder(filepath.Dir(path)); err != nil {
		return err
	}
	if err := s.disk.Write(path+newSuffix, b); err != nil {
		return err
	}
	if err := s.disk.Rename(path+newSuffix, path); err != nil {
		return err
	}
	return s.disk.SyncDir(filepath.Dir(path))
}

// settle makes a copy durable that was found: an earlier process may have
// failed to. One that is missing still, for want of a repair, is written.
func (s *Store) settle(path string, b []byte) error {
	if err := s.folder(filepath.Dir(path)); err != nil {
		return err
	}
	if got, err := s.disk.Read(path); err != nil || string(got) != string(b) {
		return s.publish(path, b)
	}
	return s.disk.SyncDir(filepath.Dir(path))
}

// scrub writes zeros over a file and unlinks it; a missing file is fine.
func (s *Store) scrub(path string) error {
	b, err := s.disk.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := s.disk.Write(path, make([]byte, max(len(b), keyFileSize))); err != nil {
		return err
	}
	return s.disk.Remove(path)
}

// folder makes a folder, durably, once a process.
func (s *Store) folder(path string) error {
	s.mu.Lock()
	made := s.created[path]
	s.mu.Unlock()
	if made {
		return nil
	}
	if err := s.disk.Mkdir(path); err != nil {
		return err
	}
	if err := s.disk.SyncDir(filepath.Dir(path)); err != nil {
		return err
	}
	s.mu.Lock()
	s.created[path] = true
	s.mu.Unlock()
	return nil
}

// known is what the cache holds of id; err is for what is erased, or closed.
func (s *Store) known(id turns.ID) (c cached, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return cached{}, false, errClosed
	}
	if c, ok = s.cache.get(id); c.erased {
		return cached{}, true, erased(id)
	}
	return c, ok, nil
}

func (s *Store) remember(id turns.ID, c cached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.cache.put(id, c)
	}
}

func (s *Store) forget(id turns.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache.drop(id)
}

// hold waits until no one else reads or writes files of id.
func (s *Store) hold(id turns.ID) (release func()) {
	s.mu.Lock()
	l := s.locks[id]
	if l == nil {
		l = new(keyLock)
		s.locks[id] = l
	}
	l.users++
	s.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.locks, id)
		}
	}
}

func (s *Store) warn(err error) {
	if s.Warn != nil {
		s.Warn(err)
	}
}

// path of one of the files of id: DIR/a/3f/01J….key.
func (s *Store) path(side string, id turns.ID, kind string) string {
	return filepath.Join(s.dir, side, fmt.Sprintf("%02x", fan(id)), id.String()+kind)
}

// fan returns the number of the folder of id, from 0 to 255. Ids of one time have
// the same first bytes, so the number comes from a hash.
func fan(id turns.ID) byte {
	h := sha256.Sum256(id[:])
	return h[0]
}
