package engine_test

import (
	"encoding/json"
	"testing"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
)

// fullness is what a session says of its context.
type fullness struct {
	Tokens, Overhead, Reported uint64
	Pressure                   float64
	Guessed                    bool `json:"window_guessed"`
}

func fullnessOf(t *testing.T, e *Engine, c reader.Caller, s turns.ID) (f fullness) {
	t.Helper()
	if err := json.Unmarshal(canon(must(e.Reader.Get(t.Context(), c, s, api.Read{}))(t)), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// usedTurn returns a turn whose call the provider counted.
func usedTurn(input uint64) api.AppendTurn {
	r := say("question "+long(2000), "answer")
	r.Usage = &turns.Usage{InputTokens: input, OutputTokens: 3}
	return r
}

// What a provider counted leads where its call saw what is in force now: in a
// session, in an ack and in a context; also after an import.
func TestReportedCountReplacesTheEstimate(t *testing.T) {
	e := newWorld().Engine(t)
	r := api.CreateSession{}
	r.Policy, r.Limits = &api.Policy{Name: "balanced", Set: turns.Raw(`{"measure":"","mode":"manual"}`)}, &turns.Limits{ContextWindow: 1_000_000}
	s := must(e.Sessions.Create(t.Context(), bob, r, []byte("{}")))(t).ID
	send := func(r api.AppendTurn) *api.Appended { return must(e.Sessions.Append(t.Context(), bob, s, r, nil))(t) }
	send(say("before", "yes"))
	if f := fullnessOf(t, e, bob, s); f.Reported != 0 || f.Tokens == 0 || f.Tokens > 100 {
		t.Errorf("no provider counted: %+v", f)
	}
	ack := send(usedTurn(327_429))
	answer := e.Store.Counter.Message(usedTurn(1).Response)
	want := 327_429 + answer
	check := func(what string, e *Engine, ack *api.Appended) {
		t.Helper()
		f := fullnessOf(t, e, bob, s)
		if f.Tokens+f.Overhead != want || f.Reported != want || f.Pressure < 0.3 {
			t.Errorf("%s: %+v, want %d tokens", what, f, want)
		}
		if ack != nil && (ack.Context.Tokens != f.Tokens || ack.Context.Estimated || ack.Context.Pressure != f.Pressure) {
			t.Errorf("%s: its ack says %+v, the session %+v", what, ack.Context, f)
		}
		var cx struct{ Reported, Tokens uint64 }
		if err := json.Unmarshal(canon(must(e.Contexts.Context(t.Context(), bob, s, api.GetContext{}))(t)), &cx); err != nil || cx.Reported != want || cx.Tokens > 2000 {
			t.Errorf("%s: the context says %+v, %v, want %d", what, cx, err, want)
		}
	}
	check("a call that was counted", e, ack)
	later := say("later", "yes")
	ack = send(later)
	want += e.Store.Counter.Message(&later.Messages[0]) + e.Store.Counter.Message(later.Response)
	check("a turn behind it", e, ack)
	model := "other"
	must(e.Sessions.Set(t.Context(), bob, s, api.SetSession{SessionSettings: api.SessionSettings{Model: &model}}, []byte("{}")))(t)
	check("settings of no weight", e, nil)

	there := newWorld().Engine(t)
	if err := importAs(t, there, bob, must(e.Transfer.Export(t.Context(), bob, s, api.ExportSession{}))(t).Records...); err != nil {
		t.Fatal(err)
	}
	check("imported", there, nil)

	system := turns.Raw(`[{"name":"role","content":"You are terse."}]`)
	var set api.SetSession
	if err := turns.DecodeJSON(append(append([]byte(`{"system":`), system...), '}'), &set); err != nil {
		t.Fatal(err)
	}
	must(e.Sessions.Set(t.Context(), bob, s, set, []byte("{}")))(t)
	if f := fullnessOf(t, e, bob, s); f.Reported != 0 || f.Tokens > 2000 {
		t.Errorf("under another system part: %+v", f)
	}
	send(usedTurn(5_000))
	if f := fullnessOf(t, e, bob, s); f.Reported != 5_000+answer {
		t.Errorf("counted under it: %+v", f)
	}
	must(e.Compactions.Compact(t.Context(), bob, s, api.RunCompaction{}, []byte("{}")))(t)
	if f := fullnessOf(t, e, bob, s); f.Reported != 0 {
		t.Errorf("behind a compaction: %+v", f)
	}
}

// A window that neither the session nor a known model states is reported as a guess.
func TestWindowOfAnUnknownModelIsAGuess(t *testing.T) {
	e := newWorld().Engine(t)
	for _, tc := range []struct {
		model  string
		window uint64
		want   bool
	}{{"no-such-model", 0, true}, {"", 0, true}, {"no-such-model", 50_000, false}} {
		r := api.CreateSession{}
		r.Policy = &api.Policy{Name: "balanced"}
		if tc.model != "" {
			r.Model = &tc.model
		}
		if tc.window > 0 {
			r.Limits = &turns.Limits{ContextWindow: tc.window}
		}
		s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t).ID
		add(t, e, s, say("question", "answer"))
		var cx fullness
		if err := json.Unmarshal(canon(must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)), &cx); err != nil {
			t.Fatal(err)
		}
		if f := fullnessOf(t, e, alice, s); f.Guessed != tc.want || cx.Guessed != tc.want {
			t.Errorf("model %q with a window of %d: the session says %v, its context %v", tc.model, tc.window, f.Guessed, cx.Guessed)
		}
	}
}
