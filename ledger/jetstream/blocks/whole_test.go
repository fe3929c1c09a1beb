package blocks

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/ledger"
)

// The twin reads one block after the other. Whatever happened to the files, and whatever was
// acknowledged, the reports are equal, and of each block that has records in them the record that
// was looked at last is the same.
func TestBlocksThatAreReadAtTheSameTimeAreReportedAsOneAfterTheOther(t *testing.T) {
	s := start(t, t.TempDir(), smallBlocks)
	s.publish(t, small(false)...)
	dir := killed(t, s)
	s.stop(t)
	numbers, err := Numbers(dir)
	if err != nil || len(numbers) < 4 {
		t.Fatalf("%d blocks: %v", len(numbers), err)
	}
	before := make(map[string][]byte)
	for _, n := range numbers {
		if before[blockPath(n)], err = os.ReadFile(filepath.Join(dir, blockPath(n))); err != nil {
			t.Fatal(err)
		}
	}
	last := check(t, dir, Options{}).Last
	rapid.Check(t, func(t *rapid.T) {
		files := maps.Clone(before)
		names := slices.Sorted(maps.Keys(files))
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			name := rapid.SampledFrom(names).Draw(t, "block")
			b := slices.Clone(files[name])
			at := rapid.IntRange(0, max(len(b)-1, 0)).Draw(t, "at")
			switch rapid.SampledFrom([]string{"flip", "shorten", "zeros", "extend", "other", "empty", "remove"}).Draw(t, "change") {
			case "flip":
				if len(b) > 0 {
					b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
				}
			case "shorten":
				b = b[:at]
			case "zeros":
				clear(b[at:min(at+rapid.IntRange(1, 4096).Draw(t, "bytes"), len(b))])
			case "extend":
				b = append(b, make([]byte, rapid.IntRange(1, 600).Draw(t, "bytes"))...)
			case "other": // a block in the place of another
				b = files[rapid.SampledFrom(names).Draw(t, "other block")]
			case "empty":
				b = nil
			case "remove":
				delete(files, name)
				continue
			}
			files[name] = b
		}
		for name := range before {
			path := filepath.Join(dir, name)
			if b, ok := files[name]; !ok {
				_ = os.Remove(path)
			} else if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		o := Options{
			From:     rapid.SampledFrom([]uint64{0, 0, 0, 1, last / 2, last}).Draw(t, "from"),
			Acked:    rapid.SampledFrom([]uint64{0, 1, last / 2, last, last + 1}).Draw(t, "acked"),
			Unsynced: rapid.Bool().Draw(t, "unsynced"),
		}
		refused := rapid.SampledFrom([]uint64{0, 0, 1, last / 3, last}).Draw(t, "refused")
		read := func(alone bool) (Report, map[uint32]uint64) {
			f, err := openFolder(dir)
			if err != nil {
				t.Fatal(err)
			}
			f.alone = alone
			var mu sync.Mutex
			ends := make(map[uint32]uint64)
			o.Valid = func(r Record) error {
				mu.Lock()
				defer mu.Unlock()
				ends[r.Block] = r.Seq
				if r.Seq == refused {
					return errors.New("refused")
				}
				return nil
			}
			r, err := f.check(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(ends, func(n uint32, _ uint64) bool {
				return !slices.ContainsFunc(r.Blocks, func(b Block) bool { return b.Number == n && b.Records > 0 })
			})
			return r, ends
		}
		got, gotEnds := read(false)
		want, wantEnds := read(true)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("one after the other (-) and at the same time (+):\n%s", diff)
		}
		if diff := cmp.Diff(wantEnds, gotEnds); diff != "" {
			t.Fatalf("the records looked at last, one after the other (-) and at the same time (+):\n%s", diff)
		}
	})
	for name, b := range before { // so that the folder is as it was
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, dir, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a check that is cancelled: %v", err)
	}
	r := check(t, dir, Options{Valid: func(r Record) error {
		if r.Block == numbers[1] {
			return ledger.ErrCorrupt
		}
		return nil
	}})
	if n := len(r.Damage) + r.Omitted; n == 0 || uint64(n) != uint64(last)-r.Records {
		t.Errorf("%d places of damage, %d of %d records", n, r.Records, last)
	}
}
