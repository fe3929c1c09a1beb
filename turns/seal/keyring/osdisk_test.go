package keyring

import (
	"os"
	"path/filepath"
	"testing"
)

// A crash may leave a longer file under the name. A write replaces all of it.
func TestWriteOverALongerFileLeavesOnlyTheNewBytes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	for _, text := range []string{"a longer text", "short", "", "more again"} {
		if err := (osDisk{}).Write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := (osDisk{}).Read(name); err != nil || string(got) != text {
			t.Errorf("after a write of %q the file holds %q, %v", text, got, err)
		}
	}
}

func TestWriteToAFolderFails(t *testing.T) {
	dir := t.TempDir()
	if err := (osDisk{}).Write(dir, []byte("text")); err == nil {
		t.Error("a write to a folder is no error")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Errorf("the folder is gone: %v", err)
	}
}
