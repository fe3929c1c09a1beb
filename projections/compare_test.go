package projections

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/projections/apply"
	"nexus/projections/compare"
	"nexus/projections/db"
	"nexus/projections/rows"
)

// lived returns the projections of a random log.
func lived(t *testing.T, seed uint64, n int) (*Store, *author) {
	t.Helper()
	a := newAuthor(t, seed)
	a.many = true
	a.write(n)
	s := openStore(t, vfs.NewMem())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	run(t, s, a.log, last(t, a.log))
	return s, a
}

func identity(t *testing.T, log ledger.Log) string {
	t.Helper()
	st, err := log.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st.Identity
}

// compared compares all rows with a log.
func compared(t *testing.T, s *Store, log ledger.Log) []compare.Difference {
	t.Helper()
	c, err := s.Compare(identity(t, log))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	for r, err := range log.Read(t.Context(), 1, false) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Seq > c.Last() {
			break
		}
		p := apply.Parse(r)
		if _, refused, err := c.Apply(r, p.Event, p.Bad); err != nil || refused != nil {
			t.Fatalf("record %d: %v, %v", r.Seq, refused, err)
		}
	}
	found, more, err := c.Differences(t.Context())
	if err != nil || more > 0 {
		t.Fatalf("%d more, %v", more, err)
	}
	return found
}

// Each key of a random log reads as one of its family.
func TestKeysReadAsTheirFamilies(t *testing.T) {
	s, _ := lived(t, 3, 500)
	for e, err := range db.Scan(s.db(), []byte{0}, []byte{0xff}) {
		if err != nil {
			t.Fatal(err)
		}
		if r := rows.Describe(e.Key); strings.HasPrefix(r.Of, "nothing") || strings.Contains(r.Of, "%!") {
			t.Errorf("%q: %+v", e.Key, r)
		}
		if r := rows.Describe(e.Key[:len(e.Key)-1]); len(e.Key) > 1 && !strings.HasPrefix(r.Of, "nothing") {
			t.Errorf("cut, %q: %+v", e.Key, r)
		}
	}
}

// Of any log nothing differs, and one row that is deleted, changed or added at random is
// named, and no other.
func TestCompareFindsTheRowThatDiffers(t *testing.T) {
	for seed := range uint64(4) {
		s, a := lived(t, seed, 1500)
		if found := compared(t, s, a.log); len(found) > 0 {
			t.Fatalf("seed %d: %v", seed, found)
		}
		var all []db.Pair
		for e, err := range db.Scan(s.db(), []byte{0}, []byte{0xff}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		for range 8 {
			e := all[a.rng.IntN(len(all))]
			kind := compare.Kind(a.rng.IntN(3))
			k, err := bytes.Clone(e.Key), error(nil)
			switch kind {
			case compare.Missing:
				err = s.db().Delete(k, pebble.NoSync)
			case compare.Differs:
				err = s.db().Set(k, append(bytes.Clone(e.Value), 1), pebble.NoSync)
			case compare.Extra:
				k = append(k, 1)
				err = s.db().Set(k, e.Value, pebble.NoSync)
			}
			if err != nil {
				t.Fatal(err)
			}
			if rows.Checkpoints.Begins(k) && kind != compare.Extra {
				if c, err := s.Compare(identity(t, a.log)); err == nil {
					t.Errorf("the checkpoint is wrong: %v", c.Close())
				}
			} else if found := compared(t, s, a.log); len(found) != 1 || found[0].Kind != kind || found[0].Of != rows.Describe(k).Of {
				t.Errorf("seed %d, %d of %q: %v", seed, kind, k, found)
			}
			if err = s.db().Set(e.Key, e.Value, pebble.NoSync); err == nil && kind == compare.Extra {
				err = s.db().Delete(k, pebble.NoSync)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A checkpoint that is not what was applied is found, whatever it says.
func TestCompareFindsAWrongCheckpoint(t *testing.T) {
	s, a := lived(t, 5, 100)
	sound := s.Applied()
	for name, tc := range map[string]struct {
		change func(cp *rows.Checkpoint)
		refuse bool
	}{
		"identity": {func(cp *rows.Checkpoint) { cp.Identity = "another" }, false},
		"hash":     {func(cp *rows.Checkpoint) { cp.Hash[3] ^= 1 }, false},
		"schema":   {func(cp *rows.Checkpoint) { cp.Schema++ }, false},
		"behind":   {func(cp *rows.Checkpoint) { cp.Seq-- }, true},
		"ahead":    {func(cp *rows.Checkpoint) { cp.Seq++ }, false},
	} {
		cp := sound
		tc.change(&cp)
		b := s.db().NewBatch()
		if err := b.PutCheckpoint(cp); err != nil {
			t.Fatal(err)
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		if tc.refuse {
			if c, err := s.Compare(identity(t, a.log)); !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("%s: %v, %v", name, c, err)
			}
		} else if found := compared(t, s, a.log); len(found) != 1 || found[0].Kind != compare.Differs || found[0].Of != rows.Describe(rows.Checkpoints.Key()).Of {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// Where all rows are gone, a bounded number of them is named.
func TestCompareNamesABoundedNumber(t *testing.T) {
	s, a := lived(t, 6, 2600)
	if err := s.db().DeleteRange([]byte{'d'}, []byte{0xff}, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	c, err := s.Compare(identity(t, a.log))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for r, err := range a.log.Read(t.Context(), 1, false) {
		p := apply.Parse(r)
		if _, refused, aerr := c.Apply(r, p.Event, p.Bad); err != nil || aerr != nil || refused != nil {
			t.Fatal(err, refused, aerr)
		}
	}
	found, more, err := c.Differences(t.Context())
	if err != nil || len(found) != 10_000 || more == 0 {
		t.Errorf("%d named, %d more: %v", len(found), more, err)
	}
}

// A comparison sees nothing of what is applied meanwhile, and ends with an error when its
// database is closed.
func TestCompareSeesTheRowsOfItsBeginning(t *testing.T) {
	a := newAuthor(t, 8)
	a.write(500)
	s := openStore(t, vfs.NewMem())
	first := last(t, a.log)
	run(t, s, a.log, first)
	c, err := s.Compare(identity(t, a.log))
	if err != nil {
		t.Fatal(err)
	}
	a.write(500)
	run(t, s, a.log, last(t, a.log))
	if c.Last() != first {
		t.Errorf("it ends at %d, not at %d", c.Last(), first)
	}
	apply := func(r ledger.Record) error {
		p := apply.Parse(r)
		_, refused, err := c.Apply(r, p.Event, p.Bad)
		return errors.Join(refused, err)
	}
	var next ledger.Record
	for r, err := range a.log.Read(t.Context(), 1, false) {
		if err != nil {
			t.Fatal(err)
		}
		if next = r; r.Seq > first {
			break
		}
		if err := apply(r); err != nil {
			t.Fatal(err)
		}
	}
	if found, more, err := c.Differences(t.Context()); err != nil || len(found) > 0 || more > 0 {
		t.Errorf("%v, %d, %v", found, more, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed under a comparison: %v", err)
	}
	if err := apply(next); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("after the close: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// The second event with one id on a channel is refused, though the first is of the same batch.
func TestAChannelHasAnIDOnceInABatch(t *testing.T) {
	a := newAuthor(t, 12)
	a.receive("default", "alice", 1)
	a.next--
	a.receive("default", "alice", 1)
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	run(t, s, a.log, last(t, a.log))
	if n := s.SetAside(); n != 1 {
		t.Errorf("%d chains aside, want 1", n)
	}
}
