package engine_test

import (
	"slices"
	"testing"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/content"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// clearing is a key store of which each key is destroyed once it was read, as the caches
// see it. kept has what they kept by then, by the names of the caches.
type clearing struct {
	content.Keys
	caches *cache.Budget
	kept   map[string]int
}

// Content implements [content.Keys].
func (c *clearing) Content(id turns.ID) (seal.Content, error) {
	k, err := c.Keys.Content(id)
	c.clear()
	return k, err
}

func (c *clearing) clear() {
	for name, n := range c.caches.Sizes() {
		c.kept[name] = max(c.kept[name], n)
	}
	c.caches.Clear()
}

// A key may be destroyed between the moment when a request reads it and the moment when
// what was opened goes to a cache. Then nothing of it is kept.
func TestNothingIsKeptThatWasReadBeforeItsKeyWasDestroyed(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	var r api.CreateSession
	system := api.System{{Content: noise(100 << 10)}} // in a blob
	r.System, r.Meta = &system, turns.Raw(`{"title":"of the session"}`)
	large := must(e.Sessions.Create(t.Context(), alice, r, nil))(t).ID
	small := create(t, e, 0, "nexus").ID
	for _, s := range []turns.ID{large, small} {
		for range 12 {
			add(t, e, s, say("question "+long(4000), long(4000)))
		}
	}
	other := w.EngineOver(e.Reader.Projections)
	other.Limits.MaxPayload = 64 << 10
	keys := &clearing{w.Keys, other.Caches, make(map[string]int)}
	other.Store.Keys = keys
	for _, s := range []turns.ID{large, small} {
		if plan := must(other.Compactions.Take(t.Context(), alice, s, api.TakeCompaction{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":1}`)}}))(t); plan.Next == "" {
			t.Errorf("the plan of %s has one page, of %d bytes", s, len(plan.Content))
		}
	}
	for _, format := range []string{"", "anthropic"} {
		if c := must(other.Contexts.Context(t.Context(), alice, small, api.GetContext{Format: format}))(t); c.Next == "" {
			t.Error("the context has one page")
		}
	}
	must(other.Reader.Get(t.Context(), alice, large, api.Read{}))(t)
	must(other.History.List(t.Context(), alice, api.ListSessions{}))(t)
	must(other.History.ListTurns(t.Context(), alice, small, api.ListTurns{}))(t)
	harmless := []string{"policies", "measures", "overheads", "digests"} // of no session's texts
	keys.clear()
	for name, n := range keys.kept {
		if n > 0 && !slices.Contains(harmless, name) {
			t.Errorf("%q keeps %d bytes of what was read before its key was destroyed", name, n)
		}
	}
}
