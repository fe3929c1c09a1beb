package watch

import (
	"path/filepath"
	"testing"
)

// The old name of a renamed file, whose entry the new name has, does not come back as one
// that vanished.
func TestOldNameIsForgotten(t *testing.T) {
	home := t.TempDir()
	w, err := New(Config{Sources: []Source{{"claude", home}}, State: filepath.Join(home, "state")})
	if err != nil {
		t.Fatal(err)
	}
	w.state = newState("")
	if err := w.read(t.Context(), w.fileOf(filepath.Join(home, "old.jsonl"), w.cfg.Sources[0])); err != nil {
		t.Fatal(err)
	}
	if len(w.state.Files) != 0 || len(w.state.Events) != 0 {
		t.Errorf("%v, %v", w.state.Files, w.state.Events)
	}
}
