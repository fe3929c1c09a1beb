package watch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nexus/turns"
)

// Imported is a file that an import stored.
type Imported struct {
	Before   fs.FileInfo // as it was before the import
	Sessions []turns.ID  // of the ledger, that it holds
}

// NoteImported notes in the state of a watch that all of some files, by path, is in its ledger, since
// an import stored them. Files that no source has, those that are not read any more, and those that were written to since, are not noted. It does nothing while a watch is
// running, which reads them itself, or if the state is of another ledger.
func NoteImported(cfg Config, files map[string]Imported) error {
	w := &Watcher{cfg: cfg}
	noted := make(map[string]*FileState)
	for path, x := range files {
		before := x.Before
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		src, ok := w.sourceOf(path)
		now, err := os.Stat(path)
		if !ok || err != nil || !before.Mode().IsRegular() {
			continue
		}
		st := &FileState{Agent: src.Agent, Sessions: distinct(x.Sessions)}
		if st.note(before); st.sameFile(now) {
			noted[path] = st
		}
	}
	if len(noted) == 0 {
		return nil
	}
	if err := os.MkdirAll(cfg.State, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(cfg.State, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(f); errors.Is(err, ErrRunning) {
		return nil
	} else if err != nil {
		return err
	}
	s, err := loadState(cfg.State)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s = newState(cfg.Ledger)
	case err != nil || s.Ledger != cfg.Ledger:
		return err
	}
	for path, st := range noted {
		if _, erased := s.Erased[digestOf(path)]; erased {
			continue
		}
		if had := s.Files[path]; had == nil || had.Offset == 0 && had.Failed == "" {
			s.Files[path] = st // an offset of zero: the watch reads it from its beginning when it grows
		}
	}
	b, err := s.encode()
	if err != nil {
		return err
	}
	return saveState(cfg.State, b)
}
