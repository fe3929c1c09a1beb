package projections

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/projections/apply"
	"nexus/projections/db"
	"nexus/projections/rows"
)

// scratches returns the folders of comparisons in that of a store.
func scratches(t *testing.T, fs vfs.FS, dir string) (found []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "verify-") {
			found = append(found, name)
		}
	}
	return found
}

// A comparison leaves no folder, and what a kill leaves the next Open removes.
func TestScratchFoldersAreRemoved(t *testing.T) {
	fs := vfs.NewMem()
	a := newAuthor(t, 21)
	a.write(300)
	s := openStore(t, fs)
	run(t, s, a.log, last(t, a.log))
	if found := compared(t, s, a.log); len(found) > 0 {
		t.Error(found)
	}
	if left := scratches(t, fs, "p"); len(left) > 0 {
		t.Errorf("a comparison left %v", left)
	}
	c, err := s.Compare(identity(t, a.log))
	if err != nil {
		t.Fatal(err)
	}
	if left := scratches(t, fs, "p"); len(left) != 1 {
		t.Errorf("a comparison runs in %v", left)
	}
	killed := vfs.NewMem()
	ok, err := vfs.Clone(fs, killed, "p", "p")
	if err = errors.Join(err, c.Close(), s.Close()); err != nil || !ok {
		t.Fatal(err)
	}
	again := openStore(t, killed)
	defer again.Close()
	if left := scratches(t, killed, "p"); len(left) > 0 {
		t.Errorf("Open left %v", left)
	}
}

// A damaged table that only the comparison reads is named as damage of the projections.
func TestACompareThatMeetsADamagedTableSaysSo(t *testing.T) {
	dir := t.TempDir()
	a := newAuthor(t, 6)
	a.write(2000)
	for range 2 { // the second opening makes tables of the first one's log
		s, err := Open(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		run(t, s, a.log, last(t, a.log))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	damage(t, dir, 1<<30)
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Compare(identity(t, a.log))
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range a.log.Read(t.Context(), 1, false) {
		p := apply.Parse(r)
		if _, refused, aerr := c.Apply(r, p.Event, p.Bad); err != nil || aerr != nil || refused != nil {
			t.Fatal(err, aerr, refused)
		}
	}
	_, _, err = c.Differences(t.Context())
	if damaged := (*db.DamagedError)(nil); !errors.As(err, &damaged) {
		t.Errorf("%v, want that the projections are damaged", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	_ = s.Close() // it says so too
}

// A row of an id that was altered to an earlier place makes no sound event look refused, and is
// the one row that is named.
func TestAnAlteredRowOfAnIDIsTheOneThatIsNamed(t *testing.T) {
	s, a := lived(t, 24, 800)
	for _, prefix := range []rows.Prefix{rows.EventIDs, rows.ReceivedIDs} {
		var k, v []byte
		for e, err := range db.Scan(s.db(), prefix.Key(), rows.End(prefix.Key())) {
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(e.Value, rows.Number(nil, 0)) {
				k, v = e.Key, e.Value
			}
		}
		if k == nil {
			t.Fatalf("%c: no row of a later event", prefix)
		}
		if err := s.db().Set(k, rows.Number(nil, 0), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		if found := compared(t, s, a.log); len(found) != 1 || found[0].Of != rows.Describe(k).Of {
			t.Errorf("%c: %v", prefix, found)
		}
		if err := s.db().Set(k, v, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
}

// Comparisons may end while the store is closed, in any order.
func TestComparisonsEndWhileTheStoreIsClosed(t *testing.T) {
	a := newAuthor(t, 25)
	a.write(100)
	for range 20 {
		s := openStore(t, vfs.NewMem())
		run(t, s, a.log, last(t, a.log))
		var wg sync.WaitGroup
		for range 4 {
			c, err := s.CompareSome()
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}
