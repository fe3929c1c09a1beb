package engine_test

import (
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// What a request names and the ledger can't follow is refused, not passed over.
func TestNumbersAndNamesOutOfBoundsAreMalformed(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 8000, "nexus")
	for field, l := range map[string]turns.Limits{
		"context_window": {ContextWindow: 1 << 53}, "max_output_tokens": {MaxOutputTokens: 1<<64 - 1}, "safety_margin": {SafetyMargin: 1 << 53},
	} {
		r := api.SetSession{SessionSettings: api.SessionSettings{Limits: &l}}
		if _, err := e.Sessions.Set(t.Context(), alice, s.ID, r, canon(r)); code(err) != api.Malformed {
			t.Errorf("%s: %v, want malformed", field, err)
		}
	}
	if _, err := e.Transfer.Export(t.Context(), alice, s.ID, api.ExportSession{Page: api.Page{After: "0.99.0.0"}}); code(err) != api.Malformed {
		t.Errorf("a cursor behind the end: %v, want malformed", err)
	}
	for set, want := range map[string]api.Code{`{"keep_tokens":1}`: api.Malformed, `{}`: ""} {
		_, err := e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "nexus", Digest: s.Policy.Digest, Set: turns.Raw(set)})
		if got := code(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("overrides %s that a pinned policy lacks: %v, want %q", set, err, want)
		}
	}
}
