package engine_test

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
)

var benchMemories = flag.Int("bench-memories", 1000, "the most memories of one agent that BenchmarkMemories stores: 100, 10000, …")

// BenchmarkMemories shows how the cost of each operation grows with the memories of one
// agent: processor time of the process, and reads of tables of Pebble. The log is in memory.
// Fifty memories are of a day, every second one is daily.
func BenchmarkMemories(b *testing.B) {
	for n := 100; n <= *benchMemories; n *= 10 {
		m := rememberMany(b, n)
		for _, op := range []struct {
			name string
			run  func(i int) error
		}{
			{"save", func(i int) error { return m.save(b, n+1+i) }},
			{"list", func(int) error { return m.list(b, 100) }},
			{"search", func(i int) error {
				_, err := m.e.Memories.Search(b.Context(), alice, api.SearchMemories{Text: fmt.Sprintf("number %d", i%n)})
				return err
			}},
			{"context-daily", func(int) error { return m.context(b, m.daily) }},
			{"context-episodes", func(int) error { return m.context(b, m.episodes) }},
		} {
			b.Run(fmt.Sprintf("%s/n=%d", op.name, n), func(b *testing.B) {
				b.ReportAllocs()
				i, reads, cpu := 0, m.blocks.Load(), processor(b)
				for b.Loop() {
					if err := op.run(i); err != nil {
						b.Fatal(err)
					}
					i++
				}
				b.ReportMetric(float64((processor(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
				b.ReportMetric(float64(m.blocks.Load()-reads)/float64(b.N), "reads/op")
			})
		}
	}
}

// remembering is an agent with many memories.
type remembering struct {
	e               *Engine
	blocks          *atomic.Int64 // that Pebble read from its files
	daily, episodes turns.ID      // sessions whose contexts have memories
}

// countingFS counts the reads of its files.
type countingFS struct {
	vfs.FS
	reads *atomic.Int64
}

func (fs countingFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.Open(name, opts...)
	return countingFile{f, fs.reads}, err
}

type countingFile struct {
	vfs.File
	reads *atomic.Int64
}

func (f countingFile) ReadAt(p []byte, off int64) (int, error) {
	f.reads.Add(1)
	return f.File.ReadAt(p, off)
}

// rememberMany returns an agent with n memories: fifty of a day, every second one daily.
func rememberMany(b *testing.B, n int) *remembering {
	b.Helper()
	w := newWorld()
	m := &remembering{blocks: new(atomic.Int64)}
	store := must(projections.Open(projections.Config{Dir: "p", FS: countingFS{vfs.NewMem(), m.blocks}, Cache: 1 << 20}))(b)
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
	m.e = newEngine(w, store)
	m.e.Memories.MaxEvents = 1 << 40
	m.daily, m.episodes = m.session(b, "gsv"), m.session(b, "wolffish")
	for i := range n {
		if err := m.save(b, i-n); err != nil {
			b.Fatal(err)
		}
	}
	return m
}

// session opens a session under a policy, with a turn.
func (m *remembering) session(b *testing.B, name string) turns.ID {
	b.Helper()
	p, ok := policy.Builtin(name)
	if !ok {
		b.Fatal(name)
	}
	var r api.CreateSession
	r.Limits, r.Policy = &turns.Limits{ContextWindow: 100_000}, &api.Policy{Name: p.Name}
	s := must(m.e.Sessions.Create(b.Context(), alice, r, nil))(b)
	must(m.e.Sessions.Append(b.Context(), alice, s.ID, say("What about number 7?", "It is fine."), nil))(b)
	return s.ID
}

// save stores a memory that is i fiftieths of a day from now.
func (m *remembering) save(b *testing.B, i int) error {
	at := api.UnixTime(time.Now().Add(time.Duration(i) * 24 * time.Hour / 50).UnixNano())
	r := api.SaveMemory{Kind: []string{"daily", "semantic"}[i&1], Visibility: "all", ValidFrom: &at,
		Text: fmt.Sprintf("The owner spoke of number %d and said that it matters for the house by the lake and for the boat.", i)}
	_, err := m.e.Memories.Save(b.Context(), alice, r, canon(r))
	return err
}

func (m *remembering) list(b *testing.B, limit int) error {
	_, err := m.e.Memories.List(b.Context(), alice, api.ListMemories{Page: api.Page{Limit: limit}})
	return err
}

func (m *remembering) context(b *testing.B, s turns.ID) error {
	cx, err := m.e.Contexts.Context(b.Context(), alice, s, api.GetContext{})
	if err == nil && len(cx.System) == 0 {
		b.Fatal("no memory is in the context")
	}
	return err
}

func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
