package alike

import (
	"slices"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// What a file got since its turn was stored is the rest of it; a turn that says something else has none.
func TestRestIsWhatTheLedgerLacks(t *testing.T) {
	user := func(s string) turns.Message { return turns.TextMessage(turns.User, s) }
	answer := func(parts ...string) *turns.Message {
		m := turns.TextMessage(turns.Assistant, parts[0])
		for _, p := range parts[1:] {
			m.Parts = append(m.Parts, turns.TextMessage(turns.Assistant, p).Parts...)
		}
		return &m
	}
	stored := func(response *turns.Message, messages ...turns.Message) *api.Turn {
		return &api.Turn{Type: "normal", Messages: messages, Response: response}
	}
	for name, tc := range map[string]struct {
		stored   []*api.Turn
		messages []turns.Message
		response *turns.Message
		rest     *transcript.Append
		more, ok bool
	}{
		"the same":           {[]*api.Turn{stored(answer("a"), user("q"))}, []turns.Message{user("q")}, answer("a"), nil, false, true},
		"an answer came":     {[]*api.Turn{stored(nil, user("q"))}, []turns.Message{user("q")}, answer("a"), &transcript.Append{Response: answer("a")}, false, true},
		"the answer went on": {[]*api.Turn{stored(answer("a"), user("q"))}, []turns.Message{user("q")}, answer("a", "b"), &transcript.Append{Response: answer("b")}, false, true},
		"an older copy":      {[]*api.Turn{stored(answer("a"), user("q"))}, []turns.Message{user("q")}, nil, nil, true, true},
		"in two pieces":      {[]*api.Turn{stored(answer("a"), user("q")), stored(answer("b"))}, []turns.Message{user("q")}, answer("a", "b"), nil, false, true},
		"another answer":     {[]*api.Turn{stored(answer("x"), user("q"))}, []turns.Message{user("q")}, answer("a"), nil, false, false},
		"another question":   {[]*api.Turn{stored(answer("a"), user("x"))}, []turns.Message{user("q")}, answer("a"), nil, false, false},
	} {
		rest, more, ok := Rest(tc.stored, &transcript.Append{Messages: tc.messages, Response: tc.response})
		if more != tc.more || ok != tc.ok || (rest == nil) != (tc.rest == nil) {
			t.Errorf("%s: %+v, %v, %v; want %+v, %v, %v", name, rest, more, ok, tc.rest, tc.more, tc.ok)
			continue
		}
		if rest != nil && (len(rest.Messages) > 0 || !slices.EqualFunc(rest.Response.Parts, tc.rest.Response.Parts, samePart)) {
			t.Errorf("%s: the rest is %+v", name, rest)
		}
	}
}

func TestACopyIsSilentAboutUsageTimeAndReasoning(t *testing.T) {
	said := turns.TextMessage(turns.Assistant, "a")
	thought := said
	thought.Parts = append([]turns.Part{{Type: turns.Reasoning, Content: "hm"}}, said.Parts...)
	had := &api.Turn{Type: "normal", Response: &thought, Usage: &turns.Usage{OutputTokens: 3}}
	if !IsCopy(had, &transcript.Append{Response: &said}) {
		t.Error("a history that lacks reasoning and usage is no copy")
	}
	if IsCopy(had, &transcript.Append{Response: &said, Usage: &turns.Usage{OutputTokens: 4}}) {
		t.Error("another usage is a copy")
	}
	if IsCopy(had, new(transcript.Append)) {
		t.Error("a turn without the response is a copy")
	}
}
