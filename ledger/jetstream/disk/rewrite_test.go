package disk_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
)

// Rewrite puts a new file in the place of the newest block, with the same bytes, and
// leaves the others as they are.
func TestRewriteReplacesTheNewestBlock(t *testing.T) {
	dir, m, _ := sound(t)
	names, err := filepath.Glob(filepath.Join(embed.StreamDir(dir, jetstream.StreamName), "msgs", "*.blk"))
	if err != nil || len(names) < 3 {
		t.Fatalf("blocks: %v, %v", names, err)
	}
	type file struct {
		info  os.FileInfo
		bytes []byte
	}
	read := func(name string) (f file) {
		if f.info, err = os.Stat(name); err == nil {
			f.bytes, err = os.ReadFile(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	before := make(map[string]file)
	for _, name := range names {
		before[name] = read(name)
	}
	if err := disk.Rewrite(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		after := read(name)
		if !bytes.Equal(after.bytes, before[name].bytes) {
			t.Errorf("%s: other bytes", name)
		}
		newest := filepath.Base(name) == fmt.Sprintf("%d.blk", len(names))
		if os.SameFile(after.info, before[name].info) == newest {
			t.Errorf("%s: the same file %v, want %v", name, newest, !newest)
		}
	}
	if _, err := disk.Inspect(t.Context(), dir, m); err != nil {
		t.Error(err)
	}
	if err := disk.Rewrite(t.TempDir()); err != nil {
		t.Errorf("a folder without streams: %v", err)
	}
}
