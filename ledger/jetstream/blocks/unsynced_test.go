package blocks

import (
	"os"
	"path/filepath"
	"testing"
)

// A power cut may leave anything of what no fsync covered, in more than one block. What
// was acknowledged is another matter.
func TestWhatNoFsyncCoveredIsTorn(t *testing.T) {
	s := start(t, t.TempDir(), smallBlocks)
	s.publish(t, small(false)...)
	sound := killed(t, s)
	recs := all(t, sound, 0)
	r := check(t, sound, Options{Unsynced: true})
	if r.Torn != nil || r.Err() != nil || r.Last != uint64(len(recs)) {
		t.Fatalf("sound: torn %+v, %v, last %d of %d", r.Torn, r.Err(), r.Last, len(recs))
	}
	newest := r.Blocks[len(r.Blocks)-1]
	before := r.Blocks[len(r.Blocks)-2]
	rec := func(block uint32, n int) (out Record) { // the n-th of its block
		for _, r := range recs {
			if r.Block == block {
				if out = r; n == 0 {
					return out
				}
				n--
			}
		}
		t.Fatalf("block %d has too few records", block)
		return out
	}
	zero := func(dir string, at, n int64, block uint32) {
		f, err := os.OpenFile(filepath.Join(dir, blockPath(block)), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(make([]byte, n), at); err != nil {
			t.Fatal(err)
		}
	}
	inNewest, inBefore := rec(newest.Number, 1), rec(before.Number, 1)
	cases := []struct {
		name   string
		at     Record // the first record that is hurt
		damage func(dir string)
	}{
		{"a hole before whole records", inNewest, func(dir string) { zero(dir, inNewest.Offset, inNewest.Bytes, newest.Number) }},
		{"a wrong byte before whole records", inNewest, func(dir string) { zero(dir, inNewest.Offset+headSize+30, 8, newest.Number) }},
		{"an older block that ends inside a record", inBefore, func(dir string) {
			shorten(t, filepath.Join(dir, blockPath(before.Number)), before.Size-inBefore.Offset-10)
		}},
		{"an older block that ends after a record", inBefore, func(dir string) {
			shorten(t, filepath.Join(dir, blockPath(before.Number)), before.Size-inBefore.Offset)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := copied(t, sound)
			c.damage(dir)
			r := check(t, dir, Options{Unsynced: true, Acked: c.at.Seq - 1})
			if r.Err() != nil || r.Torn == nil || r.Torn.Seq != c.at.Seq || r.Torn.Block != c.at.Block && r.Torn.Offset != 0 || r.Last != c.at.Seq-1 {
				t.Errorf("above what was acknowledged: torn %+v, %v, last %d; want from record %d on", r.Torn, r.Err(), r.Last, c.at.Seq)
			}
			for name, o := range map[string]Options{
				"acknowledged":                {Unsynced: true, Acked: c.at.Seq},
				"the machine did not go down": {Acked: c.at.Seq - 1},
				// A record that comes after the place was sent when the place was on the disk.
				"a later record proves it": {Unsynced: true, Acked: c.at.Seq - 1, Proves: func(r Record) uint64 { return r.Seq - 1 }},
			} {
				if r := check(t, dir, o); r.Err() == nil {
					t.Errorf("%s: no damage", name)
				}
			}
		})
	}
}
