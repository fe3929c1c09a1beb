package extractive

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Recipes of contexts name the version of what the summarizer writes. When a golden output
// changes after a release, Version changes too; before, the hash here does.
func TestTheVersionNamesWhatIsWritten(t *testing.T) {
	written := map[string]string{"1": "3cffbdc0030f840c"}
	files, err := filepath.Glob("testdata/golden/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	h := sha256.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(b)
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)[:8]); written[Version] != got {
		t.Errorf("version %s wrote %s, now it is %s: a released version gets a new number", Version, written[Version], got)
	}
}
