package watch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// NoteImported notes in the state of a watch that all of some files is in its ledger, since
// an import stored them: the files as they were before the import, by path. Files that no source
// has, and those that were written to since, are not noted. It does nothing while a watch is
// running, which reads them itself, or if the state is of another ledger.
func NoteImported(cfg Config, files map[string]fs.FileInfo) error {
	w := &Watcher{cfg: cfg}
	noted := make(map[string]*FileState)
	for path, before := range files {
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		src, ok := w.sourceOf(path)
		now, err := os.Stat(path)
		if !ok || err != nil || !before.Mode().IsRegular() {
			continue
		}
		st := &FileState{Agent: src.Agent}
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
