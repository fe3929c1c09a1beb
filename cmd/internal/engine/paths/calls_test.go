package paths_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/paths"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// countKeys counts how often a body is opened or sealed.
type countKeys struct {
	content.Keys
	n int
}

func (k *countKeys) Content(id turns.ID) (seal.Content, error) {
	k.n++
	return k.Keys.Content(id)
}

// However many responses of a request come late, the history is read once for
// all of them, and no further up than to the last of their calls.
func TestLateResponsesReadTheHistoryOnce(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	keys := &countKeys{Keys: e.Store.Keys}
	e.Store.Keys = keys
	s := enginetest.Create(t, e, 0, "nexus")
	const before, after = 200, 100
	for i := range before {
		enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprint(i), "ok"))
	}
	enginetest.Add(t, e, s.ID, enginetest.CallTool("a", "b"))
	for i := range after {
		enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprint(i), "ok"))
	}
	var many []string
	for range 400 {
		many = append(many, "a", "b")
	}
	keys.n = 0
	if got := enginetest.Add(t, e, s.ID, enginetest.AnswerCalls(many...)); len(got.Late) != len(many) {
		t.Errorf("%d late responses, want %d", len(got.Late), len(many))
	}
	if keys.n > after+100 {
		t.Errorf("%d bodies were opened for a call %d turns ago", keys.n, after)
	}
	for i := range many {
		many[i] = fmt.Sprintf("never-%d", i)
	}
	keys.n = 0
	_, err := e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, enginetest.AnswerCalls(many...), nil)
	var f *turns.FieldError
	if !errors.As(err, &f) || f.Field != "/messages/0/parts/0/id" {
		t.Errorf("responses to calls that never were: %v", err)
	}
	if keys.n > before+after+100 {
		t.Errorf("%d bodies of %d turns were opened to say so", keys.n, before+after)
	}
	enginetest.Verified(t, e)
}

// Looking for a call ends with the request.
func TestSearchForCallsEndsWithItsRequest(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	for i := range 50 {
		enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprint(i), "ok"))
	}
	row := enginetest.Must(e.Reader.Projections.Session(s.ID))(t)
	head := enginetest.Must(e.Reader.HeadNode(&row))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Loader.NewCallFinder().Find(ctx, head, []string{"a"}); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("a search of a request that is over: %v", err)
	}
}

// A call is looked for among the last turns of the path, and no further.
func TestResponseToACallTooFarBackIsMalformed(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	enginetest.Add(t, e, s.ID, enginetest.CallTool("a"))
	enginetest.Add(t, e, s.ID, enginetest.Say("never mind", "ok"))
	for range paths.LookBackTurns - 2 {
		enginetest.Must(e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, enginetest.Say("x", ""), nil))(t)
	}
	row := enginetest.Must(e.Reader.FindSession(t.Context(), enginetest.Alice, s.ID, true))(t)
	head := enginetest.Must(e.Reader.HeadNode(row))(t)
	if got, err := e.Loader.NewCallFinder().Find(t.Context(), head, []string{"a", "b"}); err != nil || !got["a"] || got["b"] {
		t.Errorf("among the last %d turns: found %v, %v; want a", paths.LookBackTurns, got, err)
	}
	enginetest.Must(e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, enginetest.Say("x", ""), nil))(t)
	if _, err := e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, enginetest.AnswerCalls("a"), nil); enginetest.Code(err) != api.Malformed {
		t.Errorf("a response to a call %d turns ago: %v", paths.LookBackTurns, err)
	}
}

// A daemon that did not store the turns reads from the path which calls are open.
func TestOpenCallsAreThoseOfTheNewestResponse(t *testing.T) {
	recorded := api.AppendTurn{Messages: append(enginetest.Say("go", "").Messages, *enginetest.CallTool("m", "n").Response)}
	for name, tc := range map[string]struct {
		turns []api.AppendTurn
		want  string
	}{
		"no turn":                        {nil, "[]"},
		"no call":                        {[]api.AppendTurn{enginetest.Say("q", "a")}, "[]"},
		"two calls":                      {[]api.AppendTurn{enginetest.CallTool("a", "b")}, "[a b]"},
		"one is answered":                {[]api.AppendTurn{enginetest.CallTool("a", "b"), enginetest.AnswerCalls("a")}, "[b]"},
		"one after the other":            {[]api.AppendTurn{enginetest.CallTool("a", "b", "c"), enginetest.AnswerCalls("c"), enginetest.AnswerCalls("a")}, "[b]"},
		"all are answered":               {[]api.AppendTurn{enginetest.CallTool("a", "b"), enginetest.AnswerCalls("b", "a")}, "[]"},
		"a later response abandons them": {[]api.AppendTurn{enginetest.CallTool("a"), enginetest.Say("never mind", "ok"), enginetest.CallTool("b")}, "[b]"},
		"the user abandons them":         {[]api.AppendTurn{enginetest.CallTool("a"), enginetest.Say("never mind", "")}, "[]"},
		"calls among the messages":       {[]api.AppendTurn{enginetest.Say("q", "a"), recorded}, "[m n]"},
		"calls among earlier messages":   {[]api.AppendTurn{enginetest.CallTool("a"), recorded, enginetest.AnswerCalls("m")}, "[n]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := enginetest.NewWorld()
			e := w.Engine(t)
			s := enginetest.Create(t, e, 0, "nexus")
			var acks []*api.Appended
			for i := range tc.turns {
				tc.turns[i].ID = enginetest.ID(t)
				acks = append(acks, enginetest.Add(t, e, s.ID, tc.turns[i]))
			}
			other := w.EngineBehind(t)
			row := enginetest.Must(other.Reader.Projections.Session(s.ID))(t)
			head := enginetest.Must(other.Reader.HeadNode(&row))(t)
			open := enginetest.Must(other.Loader.OpenCalls(t.Context(), "default", &row, nil, head))(t).Open
			if got := fmt.Sprint(open); got != tc.want {
				t.Errorf("open calls %s, want %s", got, tc.want)
			}
			known := &paths.KnownCalls{At: head.Ref}
			if got := enginetest.Must(other.Loader.OpenCalls(t.Context(), "default", &row, known, head))(t).Open; len(got) > 0 && !head.Ref.IsZero() {
				t.Errorf("what is known of the head was not used: %v", got)
			}
			known.At.Turn[0]++
			if got := enginetest.Must(other.Loader.OpenCalls(t.Context(), "default", &row, known, head))(t).Open; fmt.Sprint(got) != tc.want {
				t.Errorf("with what is known of another turn: open calls %v, want %s", got, tc.want)
			}
			for i, r := range tc.turns {
				again := enginetest.Add(t, other, s.ID, r)
				if fmt.Sprint(again.Open, again.Abandoned, again.Late) != fmt.Sprint(acks[i].Open, acks[i].Abandoned, acks[i].Late) {
					t.Errorf("the retry of turn %d: open %v, abandoned %v, late %v; the first answer was %v, %v, %v", i, again.Open, again.Abandoned, again.Late, acks[i].Open, acks[i].Abandoned, acks[i].Late)
				}
			}
		})
	}
}

// Turns of results alone leave the other calls of a response open, also late results, which
// may be sent for ever. So many follow a response at most, for each daemon, and then a
// response or other content goes on.
func TestTurnsOfResultsUnderAnOpenCallAreBounded(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	const late = 4
	ids := make([]string, paths.MaxPending)
	for i := range ids {
		ids[i] = fmt.Sprint("c", i)
	}
	enginetest.Add(t, e, s.ID, enginetest.CallTool(ids...))
	answered := ids[:paths.MaxPending-late]
	for _, id := range slices.Concat(answered, answered[len(answered)-late:]) {
		enginetest.Must(e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, enginetest.AnswerCalls(id), nil))(t)
	}
	rest := fmt.Sprint(ids[len(answered):])
	behind := w.EngineBehind(t)
	for name, of := range map[string]*engine.Engine{"the daemon that stored them": e, "another": behind} {
		_, err := of.Sessions.Append(t.Context(), enginetest.Alice, s.ID, enginetest.AnswerCalls(ids[len(answered)]), nil)
		var f *turns.FieldError
		if !errors.As(err, &f) || f.Field != "/messages" || enginetest.Code(err) != api.Malformed {
			t.Errorf("%s: one turn of results more: %v", name, err)
		}
	}
	row := enginetest.Must(behind.Reader.Projections.Session(s.ID))(t)
	head := enginetest.Must(behind.Reader.HeadNode(&row))(t)
	known := enginetest.Must(behind.Loader.OpenCalls(t.Context(), "default", &row, nil, head))(t)
	if fmt.Sprint(known.Open) != rest || known.Pending != paths.MaxPending {
		t.Errorf("open calls %v after %d turns, want %s after %d", known.Open, known.Pending, rest, paths.MaxPending)
	}
	if got := enginetest.Add(t, e, s.ID, enginetest.Say("go on", "")); fmt.Sprint(got.Abandoned) != rest {
		t.Errorf("other content abandons %v", got.Abandoned)
	}
	enginetest.Add(t, e, s.ID, enginetest.CallTool("d", "e"))
	if got := enginetest.Add(t, e, s.ID, enginetest.AnswerCalls("d")); fmt.Sprint(got.Open) != "[e]" {
		t.Errorf("after the next response %v are open", got.Open)
	}
}
