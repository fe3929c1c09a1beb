package paths_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"nexus/cmd/nexusd/daemon/engine/content"
	"nexus/cmd/nexusd/daemon/engine/enginetest"
	"nexus/cmd/nexusd/daemon/engine/paths"
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

func (k *countKeys) Key(id turns.ID) (seal.Key, error) {
	k.n++
	return k.Keys.Key(id)
}

// However many responses of a request come late, the history is read once for
// all of them, and no further up than to the last of their calls.
func TestLateResponsesReadTheHistoryOnce(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	keys := &countKeys{Keys: e.Keys}
	e.Keys = keys
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
	_, err := e.Append(t.Context(), enginetest.Alice, s.ID, enginetest.AnswerCalls(many...), nil)
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
	row := enginetest.Must(e.Projections.Session(s.ID))(t)
	head := enginetest.Must(e.HeadNode(&row))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.NewCallFinder().Find(ctx, head, []string{"a"}); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("a search of a request that is over: %v", err)
	}
}

// A call is looked for so far and no further.
func TestResponseToACallTooFarBackIsMalformed(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	enginetest.Add(t, e, s.ID, enginetest.CallTool("a"))
	enginetest.Add(t, e, s.ID, enginetest.Say("never mind", "ok"))
	for range paths.LookBackTurns {
		r := enginetest.Say("x", "")
		enginetest.Must(e.Append(t.Context(), enginetest.Alice, s.ID, r, nil))(t)
	}
	if _, err := e.Append(t.Context(), enginetest.Alice, s.ID, enginetest.AnswerCalls("a"), nil); enginetest.Code(err) != api.Malformed {
		t.Errorf("a response to a call %d turns ago: %v", paths.LookBackTurns+1, err)
	}
}
