package interchange

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// sharedData returns the folder of real transcripts next to the project. It may not exist.
func sharedData(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "..", "shared", "data")
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// readAll reads a transcript to its end.
func readAll(t rapid.TB, r *Reader) (steps []Step, losses []Loss) {
	t.Helper()
	for s, err := range r.Steps() {
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	return steps, r.Losses()
}
