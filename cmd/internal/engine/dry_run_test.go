package engine_test

import (
	"context"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/reader"
	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
)

// neverAsked is a model that a dry run must not ask.
type neverAsked struct{ t *testing.T }

func (n neverAsked) Summarize(context.Context, summary.Input) (summary.Output, error) {
	n.t.Error("a model was asked")
	return summary.Output{}, context.Canceled
}

// A compaction is stored at the head alone. The refusal says what to do instead; the operator compacts nothing anywhere.
func TestACompactionAtAnOlderTurnIsPlannedAndNotMade(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "balanced").ID
	at := add(t, e, s, say("a", "b")).ID
	add(t, e, s, say("c", "d"))
	_, err := e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{At: at}, nil)
	if said := api.FromError(err); said.Code != api.Malformed || said.Details["field"] != "/at" || !strings.Contains(said.Message, "fork.create") || !strings.Contains(said.Message, "dry_run") {
		t.Errorf("at an older turn: %+v; want malformed at /at, with fork.create and dry_run", said)
	}
	if _, err := e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{At: newID(t)}, nil); code(err) != api.NotFound {
		t.Errorf("at no turn: %v, want not_found", err)
	}
	operator := reader.Caller{Tenant: alice.Tenant, Agent: api.Operator}
	if _, err := e.Compactions.Compact(t.Context(), operator, s, api.RunCompaction{}, nil); code(err) != api.Denied {
		t.Errorf("by the operator: %v, want denied", err)
	}
}

// A dry run refuses what the run refuses, and asks no model.
func TestADryRunRefusesWhatTheRunRefuses(t *testing.T) {
	least := &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":1,"manual_keep_ratio":0}`)}
	fail := &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":1,"manual_keep_ratio":0,"tiers":["llm"],"on_failure":"fail"}`)}
	for name, tc := range map[string]struct {
		texts  []string
		closed bool
		req    api.RunCompaction
		want   api.Code
	}{
		"turns too short for a summary":        {texts: []string{"a", "b", "c", "d"}, req: api.RunCompaction{Policy: least}, want: api.Nothing},
		"a closed session":                     {texts: []string{long(900), long(900), long(900)}, closed: true, want: api.Closed},
		"no summarizer of the policy is there": {texts: []string{long(900), long(900), long(900)}, req: api.RunCompaction{Policy: fail, AtOnce: true}, want: api.Unprocessable},
		"nothing is wrong":                     {texts: []string{long(900), long(900), long(900)}, req: api.RunCompaction{Policy: least}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newWorld().Engine(t)
			s := create(t, e, 0, "balanced").ID
			for _, text := range tc.texts {
				add(t, e, s, say(text, text))
			}
			if tc.closed {
				must(e.Sessions.CloseSession(t.Context(), alice, s, api.CloseSession{}, nil))(t)
			}
			dry := tc.req
			dry.DryRun = true
			_, planned := e.Compactions.Compact(t.Context(), alice, s, dry, nil)
			_, made := e.Compactions.Compact(t.Context(), alice, s, tc.req, nil)
			if code(planned) != tc.want || code(made) != tc.want {
				t.Errorf("the dry run: %v; the run: %v; want %q for both", planned, made, tc.want)
			}
		})
	}
	t.Run("with a model", func(t *testing.T) {
		e := newWorld().Engine(t)
		e.Loader.Tiers = append([]compactor.Tier{{Name: "llm", Model: "m", Summarizer: neverAsked{t}}}, e.Loader.Tiers...)
		s := create(t, e, 0, "balanced").ID
		for range 3 {
			add(t, e, s, say(long(900), long(900)))
		}
		if r := must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{Policy: least, DryRun: true}, nil))(t); r.Plan == nil {
			t.Errorf("%+v", r)
		}
	})
}
