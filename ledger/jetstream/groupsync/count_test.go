package groupsync

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"nexus/ledger"
)

// Every write that began has arrived in the end, whatever became of it: a fsync after a
// failure waits for none of them.
func TestAWriteThatFailedIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Config{Dir: dir, Top: dir, Failed: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first makes it fail: no block has record 1
		w := s.Begin()
		if err := w.Wait(t.Context(), 1); !errors.Is(err, ledger.ErrIndeterminate) {
			t.Errorf("%v, want indeterminate", err)
		}
		w.End()
	}
	w := s.Begin()
	w.End()
	if b, a := s.begun.Load(), s.arrived.Load(); b != 4 || a != b {
		t.Errorf("%d writes began, %d arrived", b, a)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
