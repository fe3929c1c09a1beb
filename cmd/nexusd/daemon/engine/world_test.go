package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/ledger/memlog"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/tokens"
)

// world is a ledger, its log, its blobs and its keys, that any number of engines share.
type world struct {
	id    [16]byte
	log   *memlog.Log
	blobs *memlog.Blobs
	keys  *seal.Memory
}

func newWorld() *world {
	w := &world{log: memlog.New(memlog.Config{}), blobs: new(memlog.Blobs), keys: new(seal.Memory)}
	_, _ = rand.Read(w.id[:]) // never fails
	return w
}

// engine starts an engine with projections of its own.
func (w *world) engine(t *testing.T) *Engine {
	t.Helper()
	store, err := projections.Open(projections.Config{Dir: "p", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx, w.log) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("projections: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close projections: %v", err)
		}
	})
	return newEngine(w, store)
}

func newEngine(w *world, store *projections.Store) *Engine {
	return &Engine{
		Ledger: w.id, Log: w.log, Blobs: w.blobs, Store: store, Keys: w.keys, Counter: tokens.Approx{},
		Tiers: []compactor.Tier{{Name: "first-words", Summarizer: firstWords{}, Local: true}}, Now: time.Now, Rand: rand.Reader,
	}
}

// firstWords is a summarizer that keeps the first words of the text it is given.
type firstWords struct{}

func (firstWords) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	text := in.Previous
	for _, h := range in.Halves {
		text += fmt.Sprintf(" [%d %s]", h.Depth, h.Half)
	}
	return summary.Output{Text: text[max(0, len(text)-int(in.MaxTokens)*2):]}, nil
}

var alice = Caller{Tenant: "default", Agent: "alice"}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newID(t *testing.T) turns.ID {
	t.Helper()
	return must(turns.NewID(time.Now(), rand.Reader))(t)
}

func canon(v any) []byte {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		panic(err)
	}
	return b
}

func create(t *testing.T, e *Engine, window uint64, policy string) *api.Session {
	t.Helper()
	r := api.CreateSession{}
	r.Limits = &turns.Limits{ContextWindow: window}
	r.Policy = &api.Policy{Name: policy}
	return must(e.Create(t.Context(), alice, r, []byte("{}")))(t)
}

func say(user, assistant string) api.AppendTurn {
	r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, user)}}
	if assistant != "" {
		m := turns.TextMessage(turns.Assistant, assistant)
		r.Response = &m
	}
	return r
}

func add(t *testing.T, e *Engine, s turns.ID, r api.AppendTurn) *api.Appended {
	t.Helper()
	return must(e.Append(t.Context(), alice, s, r, canon(r)))(t)
}

func verified(t *testing.T, e *Engine) *api.Verified {
	t.Helper()
	v := must(e.Verify(t.Context(), Caller{"default", "_"}, api.Verify{}))(t)
	for _, p := range v.Problems {
		t.Errorf("verify: %+v", p)
	}
	return v
}

func code(err error) api.Code {
	if err == nil {
		return ""
	}
	return api.FromError(err).Code
}

func long(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefgh "[i%9]
	}
	return string(b)
}
