package engine_test

import (
	"testing"

	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
)

// The context of a past call under a view by a put policy with overrides is served
// again in the ledger that the session is imported into.
func TestPastViewSurvivesAnExport(t *testing.T) {
	e := newWorld().Engine(t)
	p, _ := policy.Builtin("nexus")
	p.KeepTokens = 300
	must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: p.Bytes()}))(t)
	s := create(t, e, 8000, "nexus")
	var at turns.ID
	for range 6 {
		at = add(t, e, s.ID, say(long(1000), "b")).ID
	}
	seen := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Policy: &api.Policy{Name: "mine", Set: turns.Raw(`{"keep_tokens":400}`)}}))(t)
	r := say("next", "c")
	r.Context = &api.ContextUsed{Recipe: seen.Recipe, Fingerprint: seen.Fingerprint}
	add(t, e, s.ID, r)

	to := newWorld().Engine(t)
	for range 2 {
		if err := importAs(t, to, alice, exports(t, e, s.ID)...); err != nil {
			t.Fatal(err)
		}
	}
	for name, e := range map[string]*Engine{"here": e, "there": to} {
		got, err := e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{At: at})
		if err != nil || got.Fingerprint != seen.Fingerprint {
			t.Errorf("%s: %v, want the context that was served", name, err)
		}
	}
	verified(t, to)
}
