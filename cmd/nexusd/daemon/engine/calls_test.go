package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"nexus/cmd/nexusd/daemon/engine/content"
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

func callTool(ids ...string) api.AppendTurn {
	r := say("go", "")
	r.Response = &turns.Message{Role: turns.Assistant}
	for _, id := range ids {
		r.Response.Parts = append(r.Response.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(`{}`)})
	}
	return r
}

func answers(ids ...string) api.AppendTurn {
	var r api.AppendTurn
	for _, id := range ids {
		r.Messages = append(r.Messages, turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.Raw(`"ok"`)}}})
	}
	return r
}

// However many responses of a request come late, the history is read once for
// all of them, and no further up than to the last of their calls.
func TestLateResponsesReadTheHistoryOnce(t *testing.T) {
	e := newWorld().Engine(t)
	keys := &countKeys{Keys: e.Keys}
	e.Keys = keys
	s := create(t, e, 0, "nexus")
	const before, after = 200, 100
	for i := range before {
		add(t, e, s.ID, say(fmt.Sprint(i), "ok"))
	}
	add(t, e, s.ID, callTool("a", "b"))
	for i := range after {
		add(t, e, s.ID, say(fmt.Sprint(i), "ok"))
	}
	var many []string
	for range 400 {
		many = append(many, "a", "b")
	}
	keys.n = 0
	if got := add(t, e, s.ID, answers(many...)); len(got.Late) != len(many) {
		t.Errorf("%d late responses, want %d", len(got.Late), len(many))
	}
	if keys.n > after+100 {
		t.Errorf("%d bodies were opened for a call %d turns ago", keys.n, after)
	}
	for i := range many {
		many[i] = fmt.Sprintf("never-%d", i)
	}
	keys.n = 0
	_, err := e.Append(t.Context(), alice, s.ID, answers(many...), nil)
	var f *turns.FieldError
	if !errors.As(err, &f) || f.Field != "/messages/0/parts/0/id" {
		t.Errorf("responses to calls that never were: %v", err)
	}
	if keys.n > before+after+100 {
		t.Errorf("%d bodies of %d turns were opened to say so", keys.n, before+after)
	}
	verified(t, e)
}

// Looking for a call ends with the request.
func TestLateResponseKeepsTheTimeOut(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	for i := range 50 {
		add(t, e, s.ID, say(fmt.Sprint(i), "ok"))
	}
	row := must(e.Projections.Session(s.ID))(t)
	head := must(e.HeadNode(&row))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.NewCallFinder().Find(ctx, head, []string{"a"}); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("a search of a request that is over: %v", err)
	}
}

// A call is looked for so far and no further.
func TestLateResponseToAnOldCall(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, callTool("a"))
	add(t, e, s.ID, say("never mind", "ok"))
	for range paths.LookBackTurns {
		r := say("x", "")
		must(e.Append(t.Context(), alice, s.ID, r, nil))(t)
	}
	if _, err := e.Append(t.Context(), alice, s.ID, answers("a"), nil); code(err) != api.Malformed {
		t.Errorf("a response to a call %d turns ago: %v", paths.LookBackTurns+1, err)
	}
}
