package engine_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/ledger/api"
	"nexus/turns"
)

// NXS-12: what a compaction was expected to cost and save is in its
// trigger, and what the calls since were billed is next to it: those with it
// in force, on the way to the head.
func TestCompactionShowsExpectedAndBilledCost(t *testing.T) {
	e := newWorld().Engine(t)
	s := opened(t, e, alice, "balanced", `{"mode":"before_call","cost":{"patience":1}}`, turns.Limits{ContextWindow: 64_000})
	call := func(i int, usage turns.Usage) *api.Context {
		t.Helper()
		cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
		r := say(fmt.Sprintf("question %d %s", i, long(2000)), "answer")
		r.Usage = &usage
		add(t, e, s.ID, r)
		return cx
	}
	var first turns.ID
	var visible []turns.Usage
	for i := range 400 {
		u := turns.Usage{InputTokens: uint64(1000 + i), OutputTokens: 7, CacheRead: uint64(500 + i), CacheCreation: uint64(400 - i)}
		cx := call(i, u)
		if cx.Compacted != nil {
			if !first.IsZero() {
				break
			}
			first = *cx.Compacted
		}
		if !first.IsZero() {
			visible = append(visible, u)
		}
	}
	k := must(e.History.GetCompaction(t.Context(), alice, s.ID, api.GetTurn{ID: first}))(t).Compaction
	var expected struct {
		Rewrite uint64  `json:"rewrite_tokens"`
		Saves   uint64  `json:"saves_tokens"`
		Payback float64 `json:"payback_calls"`
	}
	if err := turns.DecodeJSON(turns.Raw(onlyForecast(t, k.Trigger.Detail)), &expected); err != nil || expected.Rewrite == 0 || expected.Saves == 0 || expected.Payback == 0 {
		t.Errorf("the trigger says %s, %v", k.Trigger.Detail, err)
	}
	want := &api.Since{Calls: uint64(len(visible)), First: visible[0]}
	for _, u := range visible {
		want.Total.InputTokens += u.InputTokens
		want.Total.OutputTokens += u.OutputTokens
		want.Total.CacheRead += u.CacheRead
		want.Total.CacheCreation += u.CacheCreation
	}
	if diff := cmp.Diff(want, k.Since); diff != "" {
		t.Errorf("the calls since (-made +told):\n%s", diff)
	}
	// A head that was moved back, before it, has made no call with it.
	l := must(e.History.ListTurns(t.Context(), alice, s.ID, api.ListTurns{}))(t)
	must(e.Sessions.Move(t.Context(), alice, s.ID, api.MoveSession{To: &l.Turns[0].ID}, nil))(t)
	if k := must(e.History.GetCompaction(t.Context(), alice, s.ID, api.GetTurn{ID: first}))(t).Compaction; k.Since != nil {
		t.Errorf("off the head's path: %+v", k.Since)
	}
	if _, err := e.History.GetCompaction(t.Context(), alice, s.ID, api.GetTurn{ID: l.Turns[0].ID}); code(err) != api.NotFound {
		t.Errorf("a turn that is no compaction: %v", err)
	}
}

// onlyForecast returns the members of a trigger's detail that say what was expected.
func onlyForecast(t *testing.T, detail turns.Raw) []byte {
	t.Helper()
	var all map[string]turns.Raw
	if err := turns.DecodeJSON(detail, &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]turns.Raw{}
	for _, k := range []string{"rewrite_tokens", "saves_tokens", "payback_calls"} {
		out[k] = all[k]
	}
	b, err := turns.EncodeJSON(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
