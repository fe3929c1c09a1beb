package engine_test

import (
	"context"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// What a name may mean: ids by either end, labels; of the caller's own, and of the operator
// those of all agents.
func TestNamesAreFoundByTheirEndsAndLabels(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus").ID
	first := add(t, e, s, say("one", "1")).ID
	second := add(t, e, s, say("two", "2")).ID
	must(e.Sessions.Move(t.Context(), alice, s, api.MoveSession{To: &first}, nil))(t)
	find := func(r api.FindNames) *api.Names {
		t.Helper()
		return must(e.Sessions.FindNames(t.Context(), alice, r))(t)
	}
	for _, id := range []turns.ID{first, second} {
		text := id.String()
		for _, name := range []string{text, text[18:], strings.ToLower(text[20:]), text[:24]} {
			got := find(api.FindNames{Name: name, Kind: "turn"})
			if len(got.Turns) == 0 || got.Turns[0].ID != id && !strings.HasPrefix(got.Turns[0].ID.String(), name) || got.Turns[0].Session != s || got.Turns[0].Agent != "alice" {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if got := find(api.FindNames{Name: text[18:], Session: s}); len(got.Turns) != 1 || got.Turns[0].OnPath != (id == first) {
			t.Errorf("in the session: %+v", got)
		}
		if got := must(e.Sessions.FindNames(t.Context(), bob, api.FindNames{Name: text}))(t); len(got.Turns)+len(got.Sessions) != 0 {
			t.Errorf("another agent finds %+v", got)
		}
		if got := must(e.Sessions.FindNames(t.Context(), enginetest.Operator, api.FindNames{Name: text[18:]}))(t); len(got.Turns) != 1 {
			t.Errorf("the operator finds %+v", got)
		}
	}
	if got := find(api.FindNames{Name: s.String()[16:], Kind: "session"}); len(got.Sessions) != 1 || got.Sessions[0].ID != s {
		t.Errorf("the session: %+v", got)
	}
	label := "inbox-7"
	named := must(e.Sessions.Create(t.Context(), alice, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}, nil))(t)
	for _, c := range []struct {
		caller string
		want   int
	}{{"alice", 1}, {"operator", 1}, {"bob", 0}} {
		who := alice
		switch c.caller {
		case "operator":
			who = enginetest.Operator
		case "bob":
			who = bob
		}
		got := must(e.Sessions.FindNames(t.Context(), who, api.FindNames{Name: label}))(t)
		if len(got.Sessions) != c.want || c.want == 1 && got.Sessions[0].ID != named.ID {
			t.Errorf("the label for %s: %+v", c.caller, got)
		}
	}
	for _, r := range []api.FindNames{{}, {Name: strings.Repeat("x", 2000)}, {Name: "x", Kind: "memory"}, {Name: "x", Limit: 1000}} {
		if _, err := e.Sessions.FindNames(t.Context(), alice, r); code(err) != api.Malformed && code(err) != api.TooLarge {
			t.Errorf("%.20s %s %d: %v", r.Name, r.Kind, r.Limit, err)
		}
	}
	if got := find(api.FindNames{Name: "no such name"}); len(got.Sessions)+len(got.Turns) != 0 {
		t.Errorf("%+v", got)
	}
	if got := find(api.FindNames{Name: s.String()[:1], Limit: 2}); !got.Cut {
		t.Errorf("one character: %+v", got)
	}
}

// What other agents have neither crowds out what a caller names nor shows in the answer.
func TestNamesOfOtherAgentsDoNotCount(t *testing.T) {
	e := newWorld().Engine(t)
	theirs := create(t, e, 0, "nexus").ID
	for range 4200 { // more ids than one request compares
		add(t, e, theirs, say("x", ""))
	}
	own := must(e.Sessions.Create(t.Context(), bob, api.CreateSession{}, nil))(t).ID
	got := must(e.Sessions.FindNames(t.Context(), bob, api.FindNames{Name: own.String()[:1]}))(t)
	if got.Cut || len(got.Sessions) != 1 || got.Sessions[0].ID != own || len(got.Turns) != 0 {
		t.Errorf("%+v, want the one session of bob, and no more", got)
	}
	if got := must(e.Sessions.FindNames(t.Context(), alice, api.FindNames{Name: own.String()[:1], Kind: "session"}))(t); !got.Cut {
		t.Errorf("of alice, who has more ids than a request compares: %+v", got)
	}
}

// Lists and names end with their request, whatever is left out of them.
func TestListsEndWithTheirRequests(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus").ID
	add(t, e, s, say("one", "1"))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	stale := api.Read{StaleOK: true}
	for name, list := range map[string]func() error{
		"sessions by id": func() error { _, err := e.History.List(over, alice, api.ListSessions{Read: stale}); return err },
		"sessions by change": func() error {
			_, err := e.History.List(over, alice, api.ListSessions{Order: "updated", Read: stale})
			return err
		},
		"names": func() error {
			_, err := e.Sessions.FindNames(over, alice, api.FindNames{Name: s.String()[20:], Read: stale})
			return err
		},
	} {
		if err := list(); code(err) != api.Unavailable {
			t.Errorf("%s of a request that is over: %v, want unavailable", name, err)
		}
	}
}
