package engine_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/memlog"
	"nexus/lineage"
	"nexus/projections"
	"nexus/turns"
)

var benchTurns = flag.Int("bench-turns", 10_000, "the longest session that BenchmarkGrowth builds, in turns: 1000, 10000, …")

// BenchmarkGrowth shows how the cost of each operation grows with the turns
// that are stored. The log is in memory, so that what is measured is the
// engine, the sealing and the projections, not a disk.
func BenchmarkGrowth(b *testing.B) {
	for n := 1000; n <= *benchTurns; n *= 10 {
		g := grow(b, n)
		for _, op := range []struct {
			name string
			run  func(*grown, *testing.B)
		}{
			{"append", (*grown).append}, {"context", (*grown).context}, {"fork", (*grown).forkAt},
			{"merge-base", (*grown).mergeBase}, {"ancestor", (*grown).ancestor}, {"traverse", (*grown).traverse},
			{"settings-at", (*grown).settingsAt}, {"call-at", (*grown).callAt}, {"rebuild", (*grown).rebuild},
		} {
			b.Run(fmt.Sprintf("%s/n=%d", op.name, n), func(b *testing.B) { op.run(g, b) })
		}
	}
}

type grown struct {
	w    *world
	e    *Engine
	s    turns.ID
	n    int
	fork turns.ID // forked at half of the path
	then turns.ID // the turn before the first compaction
	rng  uint64
}

// benchEngine returns an engine on w with projections of its own.
func benchEngine(b *testing.B, w *world) *Engine {
	b.Helper()
	store, err := projections.Open(projections.Config{Dir: "p", FS: vfs.NewMem()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx, w.Log) }()
	b.Cleanup(func() {
		cancel()
		<-done
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return newEngine(w, store)
}

// grow builds one session of n turns of about 1 KiB, compacted every thousand.
func grow(b *testing.B, n int) *grown {
	b.Helper()
	g := &grown{w: newWorld(), n: n, rng: 1}
	g.e = benchEngine(b, g.w)
	ctx := b.Context()
	var r api.CreateSession
	r.Limits = &turns.Limits{ContextWindow: 100_000}
	r.Policy = &api.Policy{Name: "balanced"}
	s, err := g.e.Sessions.Create(ctx, alice, r, nil)
	if err != nil {
		b.Fatal(err)
	}
	g.s = s.ID
	text := long(500)
	for i := range n {
		a, err := g.e.Sessions.Append(ctx, alice, g.s, say(text, text), nil)
		if err != nil {
			b.Fatal(err)
		}
		if i == n/2 {
			f, err := g.e.Forks.Fork(ctx, alice, g.s, api.CreateFork{Turn: a.ID}, nil)
			if err != nil {
				b.Fatal(err)
			}
			g.fork = f.ID
			if _, err := g.e.Sessions.Append(ctx, alice, g.fork, say(text, text), nil); err != nil {
				b.Fatal(err)
			}
		}
		if i == 900 {
			g.then = a.ID
		}
		if i%1000 == 900 {
			if _, err := g.e.Compactions.Compact(ctx, alice, g.s, api.RunCompaction{}, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	return g
}

func (g *grown) append(b *testing.B) {
	text := long(500)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.e.Sessions.Append(b.Context(), alice, g.fork, say(text, text), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func (g *grown) context(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.e.Contexts.Context(b.Context(), alice, g.s, api.GetContext{Budget: 1 << 30}); err != nil {
			b.Fatal(err)
		}
	}
}

func (g *grown) forkAt(b *testing.B) {
	head, _ := g.nodes(b)
	for b.Loop() {
		at, err := lineage.At(g.e.Reader.Projections, head, g.depth(head))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := g.e.Forks.Fork(b.Context(), alice, g.s, api.CreateFork{Turn: at.Ref.Turn}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func (g *grown) nodes(b *testing.B) (head, other lineage.Node) {
	s, err := g.e.Reader.Projections.Session(g.s)
	if err != nil {
		b.Fatal(err)
	}
	f, err := g.e.Reader.Projections.Session(g.fork)
	if err != nil {
		b.Fatal(err)
	}
	head, err = g.e.Reader.Projections.Node(s.Head)
	if err != nil {
		b.Fatal(err)
	}
	other, err = g.e.Reader.Projections.Node(f.Head)
	if err != nil {
		b.Fatal(err)
	}
	return head, other
}

func (g *grown) depth(n lineage.Node) uint64 {
	g.rng = g.rng*6364136223846793005 + 1442695040888963407
	return 1 + (g.rng>>11)%n.Depth
}

func (g *grown) mergeBase(b *testing.B) {
	head, other := g.nodes(b)
	for b.Loop() {
		if _, ok, err := lineage.MergeBase(g.e.Reader.Projections, head, other); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
}

func (g *grown) ancestor(b *testing.B) {
	head, _ := g.nodes(b)
	for b.Loop() {
		if _, err := lineage.At(g.e.Reader.Projections, head, g.depth(head)); err != nil {
			b.Fatal(err)
		}
	}
}

// settingsAt finds the settings in force at the newest event; they are in the first.
func (g *grown) settingsAt(b *testing.B) {
	s, err := g.e.Reader.Projections.Session(g.s)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := g.e.Reader.Projections.SettingsAt(s.ID, s.Tail.Index); err != nil {
			b.Fatal(err)
		}
	}
}

// callAt finds the call that was made at a turn behind which a compaction was made.
func (g *grown) callAt(b *testing.B) {
	s, err := g.e.Reader.Projections.Session(g.s)
	if err != nil {
		b.Fatal(err)
	}
	n, err := g.e.Reader.FindTurn(&s, g.then)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := g.e.Contexts.NextCallAfter(b.Context(), &s, n); err != nil {
			b.Fatal(err)
		}
	}
}

func (g *grown) traverse(b *testing.B) {
	head, _ := g.nodes(b)
	for b.Loop() {
		ranges, err := lineage.Segments(g.e.Reader.Projections, head, 1)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for _, r := range ranges {
			for _, err := range g.e.Reader.Projections.Range(r) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
		}
		if n < g.n {
			b.Fatalf("%d turns", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(g.n), "ns/turn")
}

func (g *grown) rebuild(b *testing.B) {
	st, err := g.w.Log.State(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		replayInto(b, g.w.Log, st)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(st.Last), "ns/event")
}

func replayInto(b *testing.B, log *memlog.Log, st ledger.State) {
	store, err := projections.Open(projections.Config{Dir: "p", FS: vfs.NewMem()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx, log) }()
	if err := store.WaitFor(ctx, st.Last); err != nil {
		b.Fatal(err)
	}
	cancel()
	<-done
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkContextMeasured is context.get under a policy that uses what
// providers report, and so needs the path to know whether a compaction is due.
func BenchmarkContextMeasured(b *testing.B) {
	e := benchEngine(b, newWorld())
	var r api.CreateSession
	r.Limits = &turns.Limits{ContextWindow: 1 << 30}
	r.Policy = &api.Policy{Name: "balanced", Set: turns.Raw(`{"measure":"reported","max_messages":0}`)}
	s, err := e.Sessions.Create(b.Context(), alice, r, nil)
	if err != nil {
		b.Fatal(err)
	}
	for range 1000 {
		if _, err := e.Sessions.Append(b.Context(), alice, s.ID, say(long(500), long(500)), nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Contexts.Context(b.Context(), alice, s.ID, api.GetContext{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify is audit.verify of a ledger whose root session has n turns, with
// a hundred forks of it that each have a compaction of their own.
func BenchmarkVerify(b *testing.B) {
	for n := 1000; n <= *benchTurns; n *= 10 {
		w := newWorld()
		e := benchEngine(b, w)
		s, err := e.Sessions.Create(b.Context(), alice, api.CreateSession{}, nil)
		if err != nil {
			b.Fatal(err)
		}
		for i := range n {
			a, err := e.Sessions.Append(b.Context(), alice, s.ID, say("question", "answer"), nil)
			if err != nil {
				b.Fatal(err)
			}
			if i%(n/100) != n/100-1 {
				continue
			}
			f, err := e.Forks.Fork(b.Context(), alice, s.ID, api.CreateFork{Turn: a.ID}, nil)
			if err != nil {
				b.Fatal(err)
			}
			k := api.RecordCompaction{FirstKept: a.ID, Replacement: []turns.Message{turns.TextMessage(turns.User, "before")}}
			if _, err := e.Compactions.Record(b.Context(), alice, f.ID, k, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, err := e.Audit.Verify(b.Context(), reader.Caller{Tenant: "default", Agent: "_"}, api.Verify{})
				if err != nil || !v.OK {
					b.Fatal(v, err)
				}
			}
		})
	}
}
