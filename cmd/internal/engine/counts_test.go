package engine_test

import (
	"errors"
	"testing"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/memlog"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/tokens"
)

// recounted returns the export of x with other token counts in the header of one of
// its turns, hashed and sealed again from there on, as who holds its keys can.
func recounted(t *testing.T, x *abroad, turn int, change func(*turns.Tokens)) []api.ExportRecord {
	t.Helper()
	out := x.records(t)
	prev, changed := turns.Hash{}, false
	for i, r := range out {
		if r.Event == nil {
			continue
		}
		ev := must(turns.Decode(r.Event.Payload))(t)
		body := must(seal.Open(ev, x.w.Keys))(t)
		if ev.Ref() == x.turn[turn] {
			change(&ev.Tokens)
			changed = true
		}
		if changed {
			if !prev.IsZero() {
				ev.Prev = prev
			}
			out[i] = eventRecord(t, sealedUnder(t, x.w.Keys, ev, body, ev.Keys...))
			prev = out[i].Event.Hash
		}
		if !changed {
			prev = r.Event.Hash
		}
	}
	if !changed {
		t.Fatal("no turn was changed")
	}
	return out
}

// withLargeResult returns a session whose last turns hold a result of many tokens, which is in a
// blob where moved says so, and short ones behind it.
func withLargeResult(t *testing.T, moved bool) *abroad {
	t.Helper()
	x := newAbroad(t, bob)
	policy, window := api.Policy{Name: "balanced"}, turns.Limits{ContextWindow: 60_000}
	must(x.e.Sessions.Set(t.Context(), bob, x.id, api.SetSession{SessionSettings: api.SessionSettings{Policy: &policy, Limits: &window}}, []byte("{}")))(t)
	call := say("run it", "")
	call.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "a", Name: "run", Arguments: turns.Raw("{}")}}}
	size := 120_000
	if moved {
		size = 700_000
	}
	result := api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{
		{Type: turns.ToolCallResponse, ID: "a", Response: turns.Raw(`"` + long(size) + `"`)}}}}}
	done := turns.TextMessage(turns.Assistant, "done")
	result.Response = &done
	for _, r := range []api.AppendTurn{call, result, say("and now", "yes"), say("and then", "yes")} {
		x.turn = append(x.turn, turns.Ref{Session: x.id, Turn: must(x.e.Sessions.Append(t.Context(), x.c, x.id, r, nil))(t).ID})
	}
	return x
}

// largeResult is the index of the turn of withLargeResult that has the result.
const largeResult = 4

// What a header counts is what its counter gives for the body, wherever its parts
// are; else the turn is not imported, and nothing behind it.
func TestImportedCountsAreThoseOfTheBody(t *testing.T) {
	for name, tc := range map[string]struct {
		moved  bool
		change func(*turns.Tokens)
		bad    bool
	}{
		"as they were":             {change: func(*turns.Tokens) {}},
		"of a part in a blob":      {moved: true, change: func(*turns.Tokens) {}},
		"too few":                  {bad: true, change: func(c *turns.Tokens) { c.Messages = 11_000 }},
		"too many":                 {bad: true, change: func(c *turns.Tokens) { c.Messages++ }},
		"too few of a response":    {bad: true, change: func(c *turns.Tokens) { c.Response-- }},
		"too few, part in a blob":  {moved: true, bad: true, change: func(c *turns.Tokens) { c.Messages = 11_000 }},
		"none":                     {bad: true, change: func(c *turns.Tokens) { *c = turns.Tokens{} }},
		"of another known counter": {bad: true, change: func(c *turns.Tokens) { c.Counter = tokens.O200k{}.Name() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			e := w.Engine(t)
			x := withLargeResult(t, tc.moved)
			err := importAs(t, e, bob, recounted(t, x, largeResult, tc.change)...)
			if !tc.bad {
				if err != nil {
					t.Fatal(err)
				}
				verified(t, e)
				return
			}
			if code(err) != api.Malformed || !errors.Is(err, ledger.ErrMalformed) {
				t.Fatalf("imported with other counts: %v", err)
			}
			if s := must(e.Reader.Projections.Session(x.id))(t); s.Turns != largeResult {
				t.Errorf("%d turns are stored, want those before it", s.Turns)
			}
			verified(t, e)
		})
	}
}

// A counter that this build does not know may have given any count. It is kept, and
// planning counts anew, so that the session can be compacted.
func TestUnknownCountersAreCountedAgain(t *testing.T) {
	e := newWorld().Engine(t)
	x := withLargeResult(t, false)
	records := recounted(t, x, largeResult, func(c *turns.Tokens) { *c = turns.Tokens{Counter: "approx-99", Messages: 11_000, Response: 1} })
	if err := importAs(t, e, bob, records...); err != nil {
		t.Fatal(err)
	}
	verified(t, e)
	k := must(e.Compactions.Compact(t.Context(), bob, x.id, api.RunCompaction{}, []byte("{}")))(t)
	if k.Compaction == nil || k.Compaction.Compaction.TokensAfter > 60_000 || k.Compaction.Compaction.TokensBefore < 32_000 {
		t.Errorf("compacted: %s", canon(k))
	}
}

// A wrong count that is on the log already is a problem of its own chain.
func TestVerifyRecountsTokens(t *testing.T) {
	x := withLargeResult(t, false)
	w := newWorld()
	w.ID, w.Keys, w.Blobs = x.w.ID, x.w.Keys, x.w.Blobs
	w.Log = memlog.New(memlog.Config{})
	s := must(x.e.Reader.Projections.Session(x.id))(t)
	last := uint64(0)
	for _, r := range recounted(t, x, largeResult, func(c *turns.Tokens) { c.Messages = 11_000 }) {
		if r.Event != nil {
			last = must(w.Log.Append(t.Context(), s.Subject(), last, r.Event.Payload))(t)
		}
	}
	v := must(w.Engine(t).Audit.Verify(t.Context(), operator, api.Verify{}))(t)
	if len(v.Problems) != 1 || v.Problems[0].Code != api.Corrupt || v.Problems[0].Event != x.turn[largeResult].Turn {
		t.Errorf("problems: %s", canon(v.Problems))
	}
}
