package disk_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
)

// Rewrite puts new files in the place of the blocks that were written last, with the same
// bytes, and leaves the others as they are.
func TestRewriteReplacesTheNewestBlocks(t *testing.T) {
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
	isNewest := func(name string) bool {
		return slices.Contains([]string{fmt.Sprintf("%d.blk", len(names)-1), fmt.Sprintf("%d.blk", len(names))}, filepath.Base(name))
	}
	before := make(map[string]file)
	for _, name := range names {
		if long := time.Now().Add(-time.Hour); !isNewest(name) {
			if err := os.Chtimes(name, long, long); err != nil {
				t.Fatal(err)
			}
		}
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
		newest := isNewest(name)
		if os.SameFile(after.info, before[name].info) == newest {
			t.Errorf("%s: the same file %v, want %v", name, newest, !newest)
		}
	}
	if _, err := disk.Inspect(t.Context(), dir, m, false); err != nil {
		t.Error(err)
	}
	if err := disk.Rewrite(t.TempDir()); err != nil {
		t.Errorf("a folder without streams: %v", err)
	}
}
