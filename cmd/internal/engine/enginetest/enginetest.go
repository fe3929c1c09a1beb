// Package enginetest starts engines over a log in memory, for tests of the engine
// and of its rooms.
package enginetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/memlog"
	"nexus/projections"
	"nexus/projections/search"
	"nexus/turns"
	"nexus/turns/seal/keyring"
	"nexus/turns/tokens"
)

// Alice is an agent, Operator the operator of its tenant.
var (
	Alice    = reader.Caller{Tenant: "default", Agent: "alice"}
	Operator = reader.Caller{Tenant: "default", Agent: "_"}
)

// World is a ledger: a log, blobs and keys that any number of engines share.
type World struct {
	ID    [16]byte
	Log   *memlog.Log
	Blobs *memlog.Blobs
	Keys  *keyring.Memory
}

// NewWorld returns an empty ledger.
func NewWorld() *World {
	w := &World{Log: memlog.New(memlog.Config{}), Blobs: new(memlog.Blobs), Keys: new(keyring.Memory)}
	_, _ = rand.Read(w.ID[:]) // never fails
	return w
}

// Engine starts an engine with its own projections. The test's cleanup ends it.
func (w *World) Engine(t testing.TB) *engine.Engine {
	t.Helper()
	return w.engine(t, nil)
}

func (w *World) engine(t testing.TB, index *search.Index) *engine.Engine {
	t.Helper()
	store, err := projections.Open(projections.Config{Dir: "p", FS: vfs.NewMem(), Ledger: turns.ID(w.ID)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx, w.Log) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("projections: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close projections: %v", err)
		}
	})
	return w.over(store, index)
}

// EngineBehind starts an engine whose projections have applied what the log has now,
// and apply nothing more.
func (w *World) EngineBehind(t testing.TB) *engine.Engine {
	t.Helper()
	store := Must(projections.Open(projections.Config{Dir: "p", FS: vfs.NewMem(), Ledger: turns.ID(w.ID)}))(t)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close projections: %v", err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx, w.Log) }()
	if err := store.WaitFor(t.Context(), Must(w.Log.State(t.Context()))(t).Last); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return w.EngineOver(store)
}

// SearchEngine starts an engine with a search index over a folder. stop ends the index.
func (w *World) SearchEngine(t testing.TB, dir string) (e *engine.Engine, stop func()) {
	t.Helper()
	e = w.engine(t, search.New(search.Config{Dir: dir, Retry: time.Millisecond}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { e.Search.Run(ctx); close(done) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return e, stop
}

// EngineOver returns an engine over projections that the caller runs.
func (w *World) EngineOver(store *projections.Store) *engine.Engine { return w.over(store, nil) }

func (w *World) over(store *projections.Store, index *search.Index) *engine.Engine {
	return engine.New(engine.Config{
		Ledger: w.ID, Log: w.Log, Blobs: w.Blobs, Projections: store, Keys: w.Keys, Search: index, Counter: tokens.Approx{},
		Tiers: []compactor.Tier{{Name: "first-words", Summarizer: FirstWords{}, Local: true}}, Now: time.Now, Rand: rand.Reader,
	})
}

// FirstWords is a summarizer that names the halves it summarizes.
type FirstWords struct{}

// Summarize lists the depths and halves of in.
func (FirstWords) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	text := in.Previous
	for _, h := range in.Halves {
		text += fmt.Sprintf(" [%d %s]", h.Depth, h.Half)
	}
	return summary.Output{Text: text[max(0, len(text)-int(in.MaxTokens)*2):]}, nil
}

// Text returns a text of n characters, in words of eight.
func Text(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefgh "[i%9]
	}
	return string(b)
}

// ID returns a new id.
func ID(t testing.TB) turns.ID {
	t.Helper()
	id, err := turns.NewID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
