package projections

import (
	"context"
	crand "crypto/rand"
	"flag"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"nexus/ledger"
	"nexus/ledger/memlog"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
)

var benchEvents = flag.Int("bench-events", 100_000, "length of the logs that the benchmarks build, in events")

// writeBench writes a log of n events: sessions of a hundred turns of 1 KiB, a session out of
// ten forked from the one before it, with agents that take turns.
func writeBench(b *testing.B, n int) *memlog.Log {
	b.Helper()
	a := &author{t: b, log: memlog.New(memlog.Config{})}
	const atATime = 10
	var open []*session
	var before *session
	for int(a.next) < n {
		if len(open) < atATime {
			s := a.openBench(before, len(a.all)%10 == 9)
			open, before = append(open, s), s
		}
		body := make([]byte, 1<<10)
		_, _ = crand.Read(body)
		i := int(a.next) % len(open)
		s := open[i]
		e := &turns.Event{Kind: turns.KindTurn, ID: a.id(), Parent: s.Head, Depth: s.depth[s.Head] + 1, Halves: 3, Actor: "default/main",
			Tokens: turns.Tokens{Counter: "approx-1", Messages: 130, Response: 125}, UserTexts: 1, Digest: turns.Hash{1},
			Usage: &turns.Usage{InputTokens: 1000, OutputTokens: 100}, Encoding: turns.Zstd | turns.Sealed, Keys: []turns.ID{s.ID}, Body: body, Commitment: turns.Hash{1}}
		e.Segment = s.SegmentFor(e.ID, s.Head)
		a.append(s, e)
		if len(s.turns) == 100 {
			open = slices.Delete(open, i, i+1)
		}
	}
	return a.log
}

func (a *author) openBench(before *session, fork bool) *session {
	if !fork || before == nil || len(before.turns) == 0 {
		before = nil
	}
	return a.openAt(before, func(n int) int { return n / 2 })
}

// bareReplay copies the records of a log into Pebble as they are.
func bareReplay(b *testing.B, log ledger.Log) {
	b.Helper()
	s, err := Open(Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	batch, n := s.db().NewBatch(), 0
	commit := func() {
		if err := batch.Commit(); err != nil {
			b.Fatal(err)
		}
		batch, n = s.db().NewBatch(), 0
	}
	for r, err := range log.Read(b.Context(), 1, false) {
		if err != nil {
			b.Fatal(err)
		}
		if err := batch.Set(rows.Number(rows.Records.Key(), r.Seq), r.Payload); err != nil {
			b.Fatal(err)
		}
		if n++; n == 500 {
			commit()
		}
	}
	commit()
}

func rebuild(b *testing.B, log ledger.Log, last uint64) {
	b.Helper()
	s, err := Open(Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, log) }()
	if err := s.WaitFor(ctx, last); err != nil {
		b.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	if s.SetAside() > 0 {
		b.Fatal("chains were set aside")
	}
}

// BenchmarkRebuild compares the rebuild of all projections with a copy of the same log's
// bytes into Pebble, in turns:
//
//	go test ./projections -run '^$' -bench Rebuild -benchtime 5x -bench-events 1000000
func BenchmarkRebuild(b *testing.B) {
	log := writeBench(b, *benchEvents)
	st, err := log.State(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var ratios, work, rates []float64
	for b.Loop() {
		bare, bareCPU := timed(func() { bareReplay(b, log) })
		full, fullCPU := timed(func() { rebuild(b, log, st.Last) })
		ratios, work = append(ratios, bare/full), append(work, bareCPU/fullCPU)
		rates = append(rates, float64(st.Last)/full)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ratios), "of-bare-replay")
	b.ReportMetric(median(work), "of-its-cpu")
	b.ReportMetric(median(rates), "events/s")
}

// timed returns the seconds that f takes, and those of processor time of this process.
func timed(f func()) (wall, cpu float64) {
	began, used := time.Now(), cpuTime()
	f()
	return time.Since(began).Seconds(), (cpuTime() - used).Seconds()
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLineage asks random pairs of turns of a forest of forks of forks for their merge
// base, and whether one is above the other, by segments and, as a comparison, by turns:
//
//	go test ./projections -run '^$' -bench Lineage -benchtime 20000x -bench-events 1000000 -timeout 30m
func BenchmarkLineage(b *testing.B) {
	a := &author{t: b, log: memlog.New(memlog.Config{}), rng: rand.New(rand.NewPCG(1, 2))}
	var all []turns.Ref
	forks := *benchEvents / 100
	for int(a.next) < *benchEvents {
		var s *session
		if len(a.all) <= forks && a.rng.IntN(100) == 0 || len(a.all) == 0 { // one turn in a hundred begins a fork
			var of *session
			if len(a.all) > 0 {
				of = a.all[a.rng.IntN(len(a.all))]
			}
			s = a.open(of)
		} else if s = a.all[a.rng.IntN(len(a.all))]; a.rng.IntN(2) == 0 {
			s = a.all[0]
		}
		a.turn(s)
		all = append(all, s.Head)
	}
	store, err := Open(Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	run(b, store, a.log, last(b, a.log))
	var base, ancestor, byTurns []float64
	for b.Loop() {
		x, err := store.Node(all[a.rng.IntN(len(all))])
		if err != nil {
			b.Fatal(err)
		}
		y, err := store.Node(all[a.rng.IntN(len(all))])
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if _, _, err := lineage.MergeBase(store, x, y); err != nil {
			b.Fatal(err)
		}
		base = append(base, time.Since(began).Seconds()*1e6)
		began = time.Now()
		is, err := lineage.IsAncestor(store, x, y)
		if err != nil {
			b.Fatal(err)
		}
		ancestor = append(ancestor, time.Since(began).Seconds()*1e6)
		if x.Depth > y.Depth {
			continue
		}
		began = time.Now()
		at, err := lineage.At(store, y, x.Depth)
		if err != nil || (at.Ref == x.Ref) != is {
			b.Fatal(at.Ref, is, err)
		}
		byTurns = append(byTurns, time.Since(began).Seconds()*1e6)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(base), "base-p50-µs")
	b.ReportMetric(base[len(base)*99/100], "base-p99-µs")
	b.ReportMetric(median(ancestor), "ancestor-p50-µs")
	b.ReportMetric(ancestor[len(ancestor)*99/100], "ancestor-p99-µs")
	b.ReportMetric(median(byTurns), "at-depth-p50-µs")
	b.ReportMetric(float64(len(a.all)-1), "forks")
}

func median(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}
