package history_test

import (
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
)

func TestMergeBaseOfTwoSessions(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	a := enginetest.Add(t, e, s.ID, enginetest.Say("a", "a")).ID
	b := enginetest.Add(t, e, s.ID, enginetest.Say("b", "b")).ID
	f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: a}, []byte("{}")))(t)
	c := enginetest.Add(t, e, f.ID, enginetest.Say("c", "c")).ID
	got := enginetest.Must(e.History.Base(t.Context(), enginetest.Alice, s.ID, api.GetBase{Other: api.Place{Session: f.ID}}))(t)
	if got.Base == nil || got.Base.ID != a || got.Head.ID != b || got.Other.ID != c {
		t.Errorf("base %+v of %+v and %+v", got.Base, got.Head, got.Other)
	}
	other := enginetest.Create(t, e, 0, "nexus")
	enginetest.Add(t, e, other.ID, enginetest.Say("o", "o"))
	if got := enginetest.Must(e.History.Base(t.Context(), enginetest.Alice, s.ID, api.GetBase{Other: api.Place{Session: other.ID}}))(t); got.Base != nil {
		t.Errorf("of two trees: %+v", got.Base)
	}
	if _, err := e.History.Base(t.Context(), reader.Caller{Tenant: "default", Agent: "bob"}, s.ID, api.GetBase{Other: api.Place{Session: f.ID}}); enginetest.Code(err) != api.NotFound {
		t.Errorf("another agent's sessions: %v, want not_found", err)
	}
	list := enginetest.Must(e.History.ListTurns(t.Context(), enginetest.Alice, f.ID, api.ListTurns{At: a}))(t)
	if len(list.Turns) != 1 || list.Turns[0].ID != a {
		t.Errorf("list at the fork point: %+v", list.Turns)
	}
}
