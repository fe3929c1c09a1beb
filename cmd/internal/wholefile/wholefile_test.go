package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// What fails on the way leaves the file as it was, and nothing beside it.
func TestAFailedWriteLeavesTheFileBefore(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := Write(name, 0o640, Bytes([]byte("before"))); err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("wrong")
	err := Write(name, 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "half of what comes")
		return errors.Join(err, wrong)
	})
	if !errors.Is(err, wrong) {
		t.Errorf("%v, want %v", err, wrong)
	}
	b, err := os.ReadFile(name)
	if err != nil || string(b) != "before" {
		t.Errorf("%q, %v", b, err)
	}
	st, err := os.Stat(name)
	if err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%v, %v; want the file alone", all, err)
	}
}
