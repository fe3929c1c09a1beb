package engine_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"nexus/ledger/api"
	"nexus/turns"
)

// What a call was given comes from the recipe of its turn: the context that was served,
// with the turn's own messages behind it, whatever the policy shows by now.
func TestRecordedContextIsWhatTheCallWasServed(t *testing.T) {
	e := newWorld().Engine(t)
	c := new(clock)
	e.Reader.Now = c.Now
	k := &kept{session: usesTools(t, e, whenCold())}
	c.pass(time.Hour)
	cold := k.serve(t, e, api.GetContext{})
	r := with(say("with the cold one", "a"), cold)
	r.Usage = &turns.Usage{InputTokens: 4321, OutputTokens: 21}
	at := add(t, e, k.session, r).ID
	plain := add(t, e, k.session, say("at once, without a recipe", "a")).ID
	before := must(e.Contexts.Context(t.Context(), alice, k.session, api.GetContext{At: at, Recorded: true, Before: true, Explain: true}))(t)
	n := len(cold.Messages)
	if len(before.Messages) != n+1 || before.Recorded != "recipe" || before.Reported != 4321 || !bytes.Equal(before.Recipe, cold.Recipe) {
		t.Errorf("%d messages by %q, %d reported, recipe %s; served were %d", len(before.Messages), before.Recorded, before.Reported, before.Recipe, n)
	}
	for i := range cold.Messages {
		if !bytes.Equal(before.Messages[i], cold.Messages[i]) {
			t.Fatalf("message %d is %s, served was %s", i, before.Messages[i], cold.Messages[i])
		}
	}
	sum := uint64(0)
	for _, s := range before.Sources {
		sum += s.Messages
	}
	if sum != uint64(n+1) {
		t.Errorf("the sources have %d messages, the context %d", sum, n+1)
	}
	whole := must(e.Contexts.Context(t.Context(), alice, k.session, api.GetContext{At: at, Recorded: true}))(t)
	if len(whole.Messages) != n+2 || whole.Reported != 4342 || whole.Tokens <= before.Tokens {
		t.Errorf("with the response %d messages, %d tokens, %d reported", len(whole.Messages), whole.Tokens, whole.Reported)
	}
	if cx := must(e.Contexts.Context(t.Context(), alice, k.session, api.GetContext{At: plain, Recorded: true}))(t); cx.Recorded != "path" || cx.Reported != 0 || cx.Recipe != nil && string(cx.Recipe) != "null" {
		t.Errorf("a turn without a recipe: by %q, %d reported, recipe %s", cx.Recorded, cx.Reported, cx.Recipe)
	}
}

// Calls that wait for their results at the turn get none: the next turn brings them.
func TestRecordedContextMakesUpNoResults(t *testing.T) {
	e := newWorld().Engine(t)
	s := must(e.Sessions.Create(t.Context(), alice, api.CreateSession{}, canon(api.CreateSession{})))(t).ID
	ask := say("question", "")
	ask.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c1", Name: "run", Arguments: turns.Raw(`{}`)}}}
	at := add(t, e, s, ask).ID
	if cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{At: at}))(t); len(cx.Messages) != 3 {
		t.Fatalf("the next call is given %d messages", len(cx.Messages))
	}
	for before, want := range map[bool]int{false: 2, true: 1} {
		cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{At: at, Recorded: true, Before: before, Explain: true}))(t)
		sum := uint64(0)
		for _, x := range cx.Sources {
			sum += x.Tokens
		}
		if len(cx.Messages) != want || sum != cx.Tokens {
			t.Errorf("before %v: %d messages, %d tokens of %d in sources", before, len(cx.Messages), cx.Tokens, sum)
		}
	}
}

// A transcript that grew after its session was compacted here: its calls did not see the
// summary, which is later than they are.
func TestRecordedContextHasNoCompactionThatIsLaterThanTheCall(t *testing.T) {
	e := newWorld().Engine(t)
	c := new(clock)
	e.Reader.Now = c.Now
	s := must(e.Sessions.Create(t.Context(), alice, api.CreateSession{}, canon(api.CreateSession{})))(t).ID
	past := func(text string) api.AppendTurn {
		r := say(text, strings.Repeat("an answer of some words ", 60))
		at := api.Time(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
		r.Time = &at
		return r
	}
	for range 4 {
		add(t, e, s, past("before"))
	}
	must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":50}`)}}, nil))(t)
	at := add(t, e, s, past("read later")).ID
	now := add(t, e, s, say("said now", "a")).ID
	for turn, want := range map[turns.ID]int{at: 9, now: 0} {
		cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{At: turn, Recorded: true, Before: true, Explain: true}))(t)
		summaries := 0
		for _, x := range cx.Sources {
			if x.Status == "summary" {
				summaries++
			}
		}
		if turn == at && (len(cx.Messages) != want || summaries != 0) || turn == now && summaries == 0 {
			t.Errorf("turn %v: %d messages, %d of a summary", turn, len(cx.Messages), summaries)
		}
	}
}

// A call was under way when a compaction was committed. It did not see that: what it was given, and what
// calls cost since the compaction, is told so.
func TestACallUnderWayHasNotSeenACompaction(t *testing.T) {
	e := newWorld().Engine(t)
	s := must(e.Sessions.Create(t.Context(), alice, api.CreateSession{}, canon(api.CreateSession{})))(t).ID
	for range 4 {
		add(t, e, s, say("before", strings.Repeat("an answer of some words ", 60)))
	}
	given := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
	compact := func() turns.ID {
		return must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{AtOnce: true, Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":50}`)}}, nil))(t).Compaction.ID
	}
	k := compact()
	r := with(say("meanwhile", "the answer of that call"), given)
	r.Usage = &turns.Usage{InputTokens: 25_477, OutputTokens: 5}
	late := add(t, e, s, r)
	cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{At: late.ID, Recorded: true, Before: true}))(t)
	if n := len(given.Messages); cx.Recorded != "recipe" || len(cx.Messages) != n+1 || !bytes.Equal(cx.Messages[0], given.Messages[0]) || !bytes.Equal(cx.Messages[n-1], given.Messages[n-1]) {
		t.Errorf("by %q, %d messages, served were %d", cx.Recorded, len(cx.Messages), n)
	}
	since := func(a *api.Appended) *api.Since {
		return must(e.History.GetCompaction(t.Context(), alice, s, api.GetTurn{ID: k, Read: api.Read{MinPosition: api.Position(a.Position)}}))(t).Compaction.Since
	}
	if got := since(late); got != nil {
		t.Errorf("a call that had not seen the compaction counts since it: %+v", got)
	}
	r = with(say("after it", "a"), must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t))
	r.Usage = &turns.Usage{InputTokens: 300, OutputTokens: 5}
	if got := since(add(t, e, s, r)); got == nil || got.Calls != 1 || got.First.InputTokens != 300 {
		t.Errorf("since the compaction: %+v", got)
	}
}

func TestRecordedContextRefusesWhatAsksForAnother(t *testing.T) {
	e := newWorld().Engine(t)
	s := must(e.Sessions.Create(t.Context(), alice, api.CreateSession{}, canon(api.CreateSession{})))(t).ID
	at := add(t, e, s, say("a", "b")).ID
	fork := must(e.Forks.Fork(t.Context(), alice, s, api.CreateFork{Turn: at}, canon(api.CreateFork{Turn: at})))(t).ID
	for name, req := range map[string]api.GetContext{
		"no turn":        {Recorded: true},
		"before alone":   {At: at, Before: true},
		"another policy": {At: at, Recorded: true, Policy: &api.Policy{Name: "nexus"}},
		"a budget":       {At: at, Recorded: true, Budget: 9000},
		"a query":        {At: at, Recorded: true, Query: "a"},
	} {
		_, err := e.Contexts.Context(t.Context(), alice, s, req)
		if code(err) != api.Malformed {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := e.Contexts.Context(t.Context(), alice, fork, api.GetContext{At: at, Recorded: true})
	if code(err) != api.Malformed {
		t.Errorf("an inherited turn: %v", err)
	}
}
