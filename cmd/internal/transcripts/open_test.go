package transcripts

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A folder to import may be a link to one.
func TestFolderMayBeALink(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "one.jsonl"), []byte("x"), 0o600), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	files, size, err := Find([]string{link})
	if err != nil || len(files) != 1 || files[0].Name != filepath.Join(link, "one.jsonl") || size != 1 {
		t.Errorf("%+v, %d, %v", files, size, err)
	}
}
