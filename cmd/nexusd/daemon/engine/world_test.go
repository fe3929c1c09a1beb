package engine_test

import (
	"testing"

	"nexus/cmd/nexusd/daemon/engine"
	"nexus/cmd/nexusd/daemon/engine/enginetest"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
)

type (
	// Engine is what the tests test.
	Engine     = engine.Engine
	world      = enginetest.World
	firstWords = enginetest.FirstWords
)

var alice = enginetest.Alice

func newWorld() *world { return enginetest.NewWorld() }

func newEngine(w *world, store *projections.Store) *Engine { return w.EngineOver(store) }

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newID(t *testing.T) turns.ID { t.Helper(); return enginetest.ID(t) }

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
	v := must(e.Verify(t.Context(), reader.Caller{Tenant: "default", Agent: "_"}, api.Verify{}))(t)
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

func long(n int) string { return enginetest.Text(n) }
