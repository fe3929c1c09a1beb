package projections

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger/tlog"
	"nexus/projections/rows"
	"nexus/turns"
)

// The rows of the tree are those of the log, at each size, however the batches were cut; projections that
// are opened again go on with it, and an edge that is read is the one in memory.
func TestTheTreeFollowsTheLog(t *testing.T) {
	a := newAuthor(t, 5)
	a.many = true
	fs := vfs.NewMem()
	for range 3 { // the store is closed and opened between
		a.write(700)
		s := openStore(t, fs)
		run(t, s, a.log, last(t, a.log))
		if s.db().tree.Size() != s.Applied().Seq {
			t.Errorf("the edge in memory has %d leaves of %d", s.db().tree.Size(), s.Applied().Seq)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, fs)
	defer s.Close()
	want := tlog.Frontier{}
	for r, err := range a.log.Read(t.Context(), 1, false) {
		if err != nil {
			t.Fatal(err)
		}
		if err := want.Append(turns.HashEvent(r.Payload), func(int, uint64, turns.Hash) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got, err := tlog.Root(s.TreeHashes(), r.Seq); err != nil || got != want.Root() {
			t.Fatalf("the tree of %d has root %v, %v, want %v", r.Seq, got, err, want.Root())
		}
	}
	if want.Size() < 2000 {
		t.Fatalf("the log has %d records only", want.Size())
	}
}

// A comparison makes the tree of the log, whatever the rows say.
func TestAComparisonMakesTheTreeAnew(t *testing.T) {
	s, a := lived(t, 6, 900)
	want, err := tlog.Root(s.TreeHashes(), s.Applied().Seq)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db().Set(rows.TreeKey(nil, 0, 300), make([]byte, 32), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if got, err := tlog.Root(s.TreeHashes(), 301); err != nil || got == want {
		t.Fatalf("a changed leaf: %v, %v", got, err)
	}
	found := compared(t, s, a.log)
	if len(found) != 1 || found[0].Seq != 301 || found[0].Of != "the tree of hashes, level 0, hash 300" {
		t.Errorf("%+v", found)
	}
}

// BenchmarkTreeRows says how many rows and bytes of keys and values an event takes.
func BenchmarkTreeRows(b *testing.B) {
	var rowsMade, size int
	f := tlog.Frontier{}
	for b.Loop() {
		err := f.Append(turns.Digest("bench", rows.Number(nil, f.Size())), func(level int, n uint64, h turns.Hash) error {
			rowsMade, size = rowsMade+1, size+len(rows.TreeKey(nil, level, n))+len(h)
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size)/float64(f.Size()), "B/event")
	b.ReportMetric(float64(rowsMade)/float64(f.Size()), "rows/event")
}
