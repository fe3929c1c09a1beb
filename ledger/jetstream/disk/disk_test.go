package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

const (
	subject = "nexus.log.00.default.s.01ARZ3NDEKTSV4RRFFQ69G5FAV"
	records = 70 // of up to 1 MB: five blocks
)

// open starts a server on dir and opens the log. The result stops both.
func open(t *testing.T, dir string, acked func(log, blobs mark.Place)) (*jetstream.Log, func()) {
	t.Helper()
	s, err := embed.Start(embed.Config{DataDir: dir, MaxStore: 1 << 30, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := s.LedgerConn()
	if err != nil {
		t.Fatal(err)
	}
	j, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	l, err := jetstream.Open(ledgertest.Within(t), j, jetstream.Config{Create: true, Ledger: "L", CopyBlobs: true, Acked: acked})
	if err != nil {
		t.Fatal(err)
	}
	return l, func() {
		nc.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// sound returns a folder with a log of several blocks, its mark, and what was stored.
func sound(t *testing.T) (dir string, m mark.Mark, payloads [][]byte) {
	t.Helper()
	dir = t.TempDir()
	l, stop := open(t, dir, func(log, blobs mark.Place) {
		if log.Seq > 0 {
			m.Log = log
		}
		if blobs.Seq > 0 {
			m.Blobs = blobs
		}
	})
	rng := rand.New(rand.NewPCG(1, 1))
	for seq := range uint64(records) {
		b := make([]byte, 10_000+rng.IntN(1<<20))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		payloads = append(payloads, b)
		if _, err := l.Append(ledgertest.Within(t), subject, seq, b); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	return dir, m, payloads
}

// copyOf returns the payloads as another copy of the log.
func copyOf(payloads [][]byte) disk.Copy {
	return func(_ context.Context, seq uint64) (blocks.Record, error) {
		if seq > uint64(len(payloads)) || payloads[seq-1] == nil {
			return blocks.Record{}, fmt.Errorf("%w: record %d", ledger.ErrNotFound, seq)
		}
		p := payloads[seq-1]
		return blocks.Record{Subject: subject, Header: jetstream.LogHeader(p), Payload: p}, nil
	}
}

func blockFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(embed.StreamDir(dir, jetstream.StreamName), "msgs", "*.blk"))
	if err != nil || len(names) < 4 {
		t.Fatalf("%d blocks, %v; want four or more", len(names), err)
	}
	return names
}

func change(t *testing.T, name string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// holds opens the repaired log, compares every record, and appends to it.
func holds(t *testing.T, dir string, payloads [][]byte) {
	t.Helper()
	l, stop := open(t, dir, nil)
	defer stop()
	n := 0
	for r, err := range l.Read(t.Context(), 1, false) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Seq != uint64(n)+1 || payloads[n] != nil && !bytes.Equal(r.Payload, payloads[n]) {
			t.Fatalf("record %d is another", r.Seq)
		}
		n++
	}
	if n != len(payloads) {
		t.Fatalf("%d records, want %d", n, len(payloads))
	}
	last, err := l.Last(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	if seq, err := l.Append(t.Context(), subject, last.Seq, []byte("next")); err != nil || seq != uint64(len(payloads))+1 {
		t.Errorf("append: %d, %v", seq, err)
	}
}

// A log of several blocks is damaged within and across blocks. Every record comes back
// at its position, in blocks as the server makes them.
func TestRepairOfSeveralBlocks(t *testing.T) {
	from, m, payloads := sound(t)
	for name, damage := range map[string]func(names []string){
		"a block in the middle is gone": func(names []string) { _ = os.Remove(names[1]) },
		"two blocks are gone":           func(names []string) { _, _ = os.Remove(names[1]), os.Remove(names[2]) },
		"the first block is gone":       func(names []string) { _ = os.Remove(names[0]) },
		"the newest block is gone":      func(names []string) { _ = os.Remove(names[len(names)-1]) },
		"the two newest are gone":       func(names []string) { _, _ = os.Remove(names[len(names)-1]), os.Remove(names[len(names)-2]) },
		"all are gone": func(names []string) {
			for _, name := range names {
				_ = os.Remove(name)
			}
		},
		"the end of one and the beginning of the next": func(names []string) {
			change(t, names[1], func(b []byte) []byte { return b[:len(b)-2_000_000] })
			change(t, names[2], func(b []byte) []byte { clear(b[:1_500_000]); return b })
		},
		"a bit of each": func(names []string) {
			for _, name := range names {
				change(t, name, func(b []byte) []byte { b[len(b)/3] ^= 2; return b })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			damage(blockFiles(t, dir))
			damaged := (*disk.DamagedError)(nil)
			if _, err := disk.Inspect(t.Context(), dir, m, false); !errors.As(err, &damaged) || damaged.Stream != jetstream.StreamName {
				t.Fatalf("inspect: %v", err)
			}
			out, err := disk.Repair(t.Context(), disk.RepairConfig{Data: dir, Mark: m, Log: copyOf(payloads), Aside: filepath.Join(dir, "aside")})
			if err != nil || len(out[0].Restored) == 0 {
				t.Fatal(out, err)
			}
			if found, err := disk.Inspect(t.Context(), dir, m, false); err != nil || found.Mark.Log != m.Log {
				t.Fatalf("after the repair: %+v, %v", found.Mark, err)
			}
			for _, name := range blockFiles(t, dir) {
				if info, err := os.Stat(name); err != nil || info.Size() > blocks.MaxBlock {
					t.Errorf("%s has %d bytes, %v", name, info.Size(), err)
				}
			}
			holds(t, dir, payloads)
		})
	}
}

// Records of which no copy is sound are named, each, and nothing is changed. With
// AcceptLoss their positions hold a record that says so.
func TestRepairWithoutACopyNamesEachRecord(t *testing.T) {
	dir, m, payloads := sound(t)
	names := blockFiles(t, dir)
	change(t, names[1], func(b []byte) []byte { clear(b[1_000_000:4_000_000]); return b })
	before, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	c := disk.RepairConfig{Data: dir, Mark: m, Aside: filepath.Join(dir, "aside")}
	loss := (*disk.LossError)(nil)
	if _, err := disk.Repair(t.Context(), c); !errors.As(err, &loss) || len(loss.Lost) < 2 || !errors.Is(err, ledger.ErrCorrupt) {
		t.Fatalf("%v, want the records that are lost", err)
	}
	if after, err := os.ReadFile(names[1]); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a refused repair changed the block (%v)", err)
	}
	c.AcceptLoss = true
	out, err := disk.Repair(t.Context(), c)
	if err != nil || len(out[0].Lost) != len(loss.Lost) {
		t.Fatal(out, err)
	}
	for _, l := range out[0].Lost {
		payloads[l.Seq-1] = nil
	}
	holds(t, dir, payloads)
}

// What another copy gives is believed only if its hash is that of the mark.
func TestRepairRefusesACopyWithAnotherHash(t *testing.T) {
	dir, m, payloads := sound(t)
	names := blockFiles(t, dir)
	change(t, names[len(names)-1], func(b []byte) []byte { b[len(b)-100] ^= 1; return b })
	other := slices.Clone(payloads)
	other[m.Log.Seq-1] = []byte("another record")
	loss := (*disk.LossError)(nil)
	if _, err := disk.Repair(t.Context(), disk.RepairConfig{Data: dir, Mark: m, Log: copyOf(other), Aside: filepath.Join(dir, "aside")}); !errors.As(err, &loss) || loss.Lost[0].Seq != m.Log.Seq {
		t.Errorf("%v, want that record %d is lost", err, m.Log.Seq)
	}
}

// A repair that is cut short between two files can be run again.
func TestARepairCanBeRunAgain(t *testing.T) {
	dir, m, payloads := sound(t)
	names := blockFiles(t, dir)
	for _, name := range names {
		change(t, name, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	}
	damaged, err := os.ReadFile(names[2])
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		c := disk.RepairConfig{Data: dir, Mark: m, Log: copyOf(payloads), Aside: filepath.Join(dir, fmt.Sprint("aside", round))}
		if _, err := disk.Repair(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if round == 0 { // as if the third block had not been replaced
			change(t, names[2], func([]byte) []byte { return damaged })
		}
	}
	holds(t, dir, payloads)
}

// The streams must hold at the mark what was acknowledged there, byte for byte: another
// sound record is damage.
func TestInspectComparesTheRecordAtTheMark(t *testing.T) {
	dir, m, _ := sound(t)
	if found, err := disk.Inspect(t.Context(), dir, m, false); err != nil || found.Mark.Log != m.Log || found.Read == 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	for name, change := range map[string]func(m *mark.Mark){
		"another hash": func(m *mark.Mark) { m.Log.Sum = turns.Hash{1} },
		"a longer log": func(m *mark.Mark) { m.Log.Seq++ },
		"longer blobs": func(m *mark.Mark) { m.Blobs.Seq++ },
		"after a clean stop, another hash": func(m *mark.Mark) {
			sizes, err := disk.Sizes(dir, 0)
			if err != nil {
				t.Fatal(err)
			}
			m.Closed, m.Log.Sum = &sizes, turns.Hash{1}
		},
	} {
		changed := m
		change(&changed)
		if _, err := disk.Inspect(t.Context(), dir, changed, false); !errors.As(err, new(*disk.DamagedError)) {
			t.Errorf("%s: %v, want damage", name, err)
		}
	}
}

// After a clean stop only the newest blocks are read.
func TestInspectReadsLittleAfterACleanStop(t *testing.T) {
	dir, m, _ := sound(t)
	all, err := disk.Inspect(t.Context(), dir, m, false)
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := disk.Sizes(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	m.Closed = &sizes
	newest, err := disk.Inspect(t.Context(), dir, m, false)
	if err != nil || newest.Read > blocks.MaxBlock || newest.Read >= all.Read/2 {
		t.Errorf("read %d of %d bytes, %v", newest.Read, all.Read, err)
	}
	m.Closed.Log++
	if again, err := disk.Inspect(t.Context(), dir, m, false); err != nil || again.Read < all.Read {
		t.Errorf("with another size: read %d of %d bytes, %v", again.Read, all.Read, err)
	}
	m.Closed.Log--
	if err := os.Remove(filepath.Join(embed.StreamDir(dir, jetstream.StreamName), "msgs", "index.db")); err != nil {
		t.Fatal(err)
	}
	if again, err := disk.Inspect(t.Context(), dir, m, false); err != nil || again.Read < all.Read {
		t.Errorf("without the server's index: read %d of %d bytes, %v", again.Read, all.Read, err)
	}
}
