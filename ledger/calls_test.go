package ledger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nexus/turns"
)

func called(ids ...string) *turns.Message {
	m := &turns.Message{Role: turns.Assistant}
	for _, id := range ids {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: "f", Arguments: turns.Raw(`{}`)})
	}
	return m
}

func result(ids ...string) turns.Message {
	m := turns.Message{Role: turns.Tool}
	for _, id := range ids {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCallResponse, ID: id, Response: turns.Raw(`"ok"`)})
	}
	return m
}

func TestATurnOpensClosesAndAbandonsCalls(t *testing.T) {
	user := turns.TextMessage(turns.User, "go on")
	for _, tc := range []struct {
		name     string
		open     Calls
		messages []turns.Message
		response *turns.Message
		want     CallChanges
	}{
		{"a response opens its calls", nil, []turns.Message{user}, called("a", "b"), CallChanges{Open: Calls{"a", "b"}}},
		{"results close them", Calls{"a", "b"}, []turns.Message{result("a"), result("b")}, called("c"), CallChanges{Open: Calls{"c"}}},
		{"some results leave the rest open", Calls{"a", "b"}, []turns.Message{result("b")}, nil, CallChanges{Open: Calls{"a"}}},
		{"text moves on", Calls{"a"}, []turns.Message{user}, nil, CallChanges{Abandoned: []string{"a"}}},
		{"text beside the results moves on from the rest", Calls{"a", "b"}, []turns.Message{user, result("a")}, nil, CallChanges{Abandoned: []string{"b"}}},
		{"a response moves on", Calls{"a"}, nil, called(), CallChanges{Abandoned: []string{"a"}}},
		{"a late result", nil, []turns.Message{result("a")}, nil, CallChanges{Late: []string{"a"}}},
		{"many late results of one call", nil, []turns.Message{result("a"), result("a"), result("a")}, nil, CallChanges{Late: []string{"a", "a", "a"}}},
		{"a second result of a call that came with the request", nil, []turns.Message{*called("x"), result("x"), result("x")}, nil, CallChanges{Late: []string{"x"}}},
		{"a second result is late", Calls{"a"}, []turns.Message{result("a"), result("a")}, nil, CallChanges{Late: []string{"a"}}},
		{"calls that came with the request", nil, []turns.Message{user, *called("x"), result("x"), *called("y")}, nil, CallChanges{Open: Calls{"y"}}},
		{"and are left there", nil, []turns.Message{*called("x"), user}, called("z"), CallChanges{Open: Calls{"z"}, Abandoned: []string{"x"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var asked []string
			got, err := tc.open.After(tc.messages, tc.response, func(ids []string) (map[string]bool, error) {
				asked = append(asked, ids...)
				return map[string]bool{"a": true}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(asked) > 1 {
				t.Errorf("asked for %q, each once", asked)
			}
			if d := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
	if _, err := (Calls{"a"}).After([]turns.Message{result("a")}, nil, func(ids []string) (map[string]bool, error) {
		return nil, fmt.Errorf("asked for %q, though every id is known", ids)
	}); err != nil {
		t.Error(err)
	}
	none := func([]string) (map[string]bool, error) { return nil, nil }
	_, err := Calls{"a"}.After([]turns.Message{result("never")}, nil, none)
	var f *turns.FieldError
	if !errors.Is(err, ErrMalformed) || !errors.As(err, &f) || f.Field != "/messages/0/parts/0/id" {
		t.Errorf("a result of no known call: %v", err)
	}
}
