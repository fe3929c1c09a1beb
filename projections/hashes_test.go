package projections

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger/tlog"
	"nexus/projections/apply"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// The rows of the tree are those of the log, at each size, however the batches were cut; projections that
// are opened again go on with it.
func TestTheTreeFollowsTheLog(t *testing.T) {
	a := newAuthor(t, 5)
	a.many = true
	fs := vfs.NewMem()
	for range 3 { // the store is closed and opened between
		a.write(700)
		s := openStore(t, fs)
		run(t, s, a.log, last(t, a.log))
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

var treeEvents = flag.Int("tree-events", 100_000, "events of the largest tree of BenchmarkTree; docs/TESTING.md has 10,000,000")

// BenchmarkTree measures the tree of hashes in rows on a disk, over 1,000 events and ten times as many up to
// -tree-events: what an event adds to batches of 1,000, as a ratio to the two SHA-256 of 65 bytes that any tree takes, the bytes
// on the disk, and then what the root takes, the path of a leaf, and the path from an older tree. The rows are in the page cache: it can't see
// what a cold disk adds, nor what the other rows of the events cost.
func BenchmarkTree(b *testing.B) {
	for events := 1000; events <= *treeEvents; events *= 10 {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			size := uint64(events)
			var disk *db.DB
			var wrote, hashed time.Duration
			runs := 0
			for b.Loop() {
				if runs++; disk != nil {
					if err := disk.Close(); err != nil {
						b.Fatal(err)
					}
				}
				_, opened, err := db.Open(db.Config{Dir: b.TempDir()})
				if err != nil {
					b.Fatal(err)
				}
				disk = opened.DB
				began := time.Now()
				growTree(b, disk, size)
				wrote += time.Since(began)
				began = time.Now()
				var node [65]byte
				for range 2 * size {
					h := sha256.Sum256(node[:])
					copy(node[:], h[:])
				}
				hashed += time.Since(began)
			}
			defer disk.Close()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(wrote.Nanoseconds())/float64(runs)/float64(size), "ns/event")
			b.ReportMetric(float64(wrote)/float64(hashed), "x-sha256")
			if err := disk.Flush(); err != nil {
				b.Fatal(err)
			}
			used, err := disk.EstimateDiskUsage(rows.TreeKey(nil, 0, 0), rows.TreeKey(nil, 63, 0))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(used)/float64(size), "B/event")
			tree := apply.TreeHashes(disk)
			for name, read := range map[string]func(at uint64) (int, error){
				"root-us": func(at uint64) (int, error) { _, err := tlog.Root(tree, at+1); return 0, err },
				"path-us": func(at uint64) (int, error) { p, err := tlog.Inclusion(tree, at, size); return len(p), err },
				"from-us": func(at uint64) (int, error) { p, err := tlog.Consistency(tree, at+1, size); return len(p), err },
			} {
				const reads = 200
				began := time.Now()
				for i := range uint64(reads) {
					if _, err := read(i * 2654435761 % size); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(time.Since(began).Microseconds())/reads, name)
			}
		})
	}
}

// growTree writes the rows of a tree of that size, in batches of 1,000 events.
func growTree(b *testing.B, disk *db.DB, size uint64) {
	f, key := tlog.Frontier{}, []byte(nil)
	for f.Size() < size {
		batch := disk.NewBatch()
		for range min(1000, size-f.Size()) {
			var entry turns.Hash
			binary.BigEndian.PutUint64(entry[:], f.Size())
			err := f.Append(entry, func(level int, n uint64, h turns.Hash) error {
				key = rows.TreeKey(key[:0], level, n)
				return batch.Set(key, h[:])
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := batch.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}
