package keyring

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"nexus/turns"
	"nexus/turns/seal"
)

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

// load opens the folder: it reads both copies, mends them, and takes what they say. The
// caller has both stages, or is the only one that has s.
func (s *Store) load() error {
	for _, name := range []string{s.dir, filepath.Join(s.dir, copyA), filepath.Join(s.dir, copyB)} {
		if err := s.disk.Mkdir(name); err != nil {
			return err
		}
		if err := s.disk.SyncDir(filepath.Dir(name)); err != nil {
			return err
		}
	}
	number, err := s.current()
	if err != nil {
		return err
	}
	if s.epoch != nil && number < s.epoch.number {
		return fmt.Errorf("%w: %s and %s are gone", turns.ErrCorrupt, s.logName(copyA), s.logName(copyB))
	}
	files, err := s.read()
	if err != nil {
		return err
	}
	if number == 0 {
		if err := s.sweep(0); err != nil {
			return err
		}
		s.succeed(newKeys())
		return s.rewrite(newKeys())
	}
	e, err := s.loadEpoch(number, files)
	if err != nil {
		return err
	}
	m, err := s.loadLog(e, files)
	if err != nil {
		return err
	}
	if err := s.sweep(number); err != nil {
		return err
	}
	s.epoch, s.next, s.end = e, m.next, int64(m.end)
	s.succeed(m.keys)
	return nil
}

// succeed takes the keys of the disk.
func (s *Store) succeed(k keys) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.failed = k, nil
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
	key, err := seal.NewKey(rand.Reader)
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
