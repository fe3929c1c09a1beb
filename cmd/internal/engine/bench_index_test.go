package engine_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/tokens"
)

// BenchmarkIndexCatchUp is the engine's part of an index that catches up: the documents of each
// record, by an engine that has read nothing but the context of one agent. A session has 4 kB of
// system text and states its folder in its meta. Sessions is many of one turn, turns is one of as many
// turns, interleaved is sessions that take turns. It reports the processor time and the bytes that are
// allocated a record, and how much of the agent's context is in memory behind it, in percent.
//
//	go test ./cmd/internal/engine -run '^$' -bench IndexCatchUp -benchtime 3x
func BenchmarkIndexCatchUp(b *testing.B) {
	for _, w := range []struct {
		name            string
		sessions, turns int
	}{{"sessions", 5000, 1}, {"turns", 1, 5000}, {"interleaved", 500, 10}} {
		b.Run(w.name, func(b *testing.B) {
			world := newWorld()
			writer := benchEngine(b, world)
			agent := contextSession(b, writer)
			first := must(world.Log.State(b.Context()))(b).Last + 1
			var ids []turns.ID
			for i := range w.sessions {
				var r api.CreateSession
				system, _ := enginetest.Preamble(4000)
				r.System, r.Meta = &system, turns.Raw(fmt.Sprintf(`{"source":"claude-code","cwd":"/home/a/project-%d"}`, i))
				ids = append(ids, must(writer.Sessions.Create(b.Context(), alice, r, nil))(b).ID)
			}
			for i := range w.turns {
				for _, id := range ids {
					must(writer.Sessions.Append(b.Context(), alice, id, say(fmt.Sprint("question ", i), "answer"), nil))(b)
				}
			}
			last := must(world.Log.State(b.Context()))(b).Last
			store := writer.Reader.Projections
			if err := store.WaitFor(b.Context(), last); err != nil {
				b.Fatal(err)
			}
			used, kept := 0.0, 0.0
			b.ReportAllocs()
			for b.Loop() {
				e := engineOf(world, store, 16<<20)
				must(e.Contexts.Context(b.Context(), alice, agent, api.GetContext{}))(b)
				hot := hotBytes(e)
				began := processorTime()
				for seq := first; seq <= last; seq++ {
					must(e.Search.Documents(b.Context(), seq))(b)
				}
				used += processorTime() - began
				kept += float64(hotBytes(e)) / float64(hot)
			}
			b.ReportMetric(used*1e6/float64(b.N)/float64(last-first+1), "cpu-µs/record")
			b.ReportMetric(100*kept/float64(b.N), "kept-%")
		})
	}
}

// engineOf returns an engine whose caches keep so many bytes.
func engineOf(w *world, store *projections.Store, cacheBytes int) *Engine {
	return engine.New(engine.Config{Ledger: w.ID, Log: w.Log, Blobs: w.Blobs, Projections: store, Keys: w.Keys, Counter: tokens.Approx{}, Now: time.Now, Rand: rand.Reader, CacheBytes: cacheBytes})
}

// hotBytes is what an engine keeps of the contexts of agents.
func hotBytes(e *Engine) int {
	sizes := e.Caches.Sizes()
	return sizes["turns"] + sizes["paths"] + sizes["messages"]
}
