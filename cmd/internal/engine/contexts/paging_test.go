package contexts_test

import (
	"fmt"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// narrow changes the settings that contexts and plans depend on.
func narrow(t *testing.T, e *engine.Engine, s turns.ID) {
	t.Helper()
	l := turns.Limits{ContextWindow: 12_000}
	enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s, api.SetSession{SessionSettings: api.SessionSettings{Limits: &l}}, []byte("{}")))(t)
}

// paged returns a session whose contexts and plans take several pages.
func paged(t *testing.T) (w *enginetest.World, e *engine.Engine, s turns.ID) {
	t.Helper()
	w = enginetest.NewWorld()
	e = w.Engine(t)
	e.Limits.MaxPayload = 64 << 10
	s = enginetest.Create(t, e, 60_000, "nexus").ID
	for i := range 40 {
		enginetest.Add(t, e, s, enginetest.Say(fmt.Sprintf("question %d %s", i, enginetest.Text(4000)), "answer"))
	}
	return w, e, s
}

// All pages of a context are of one context, also when the settings change
// between them: else the next page is a conflict.
func TestPagesOfAContextAreOfOneContext(t *testing.T) {
	w, e, s := paged(t)
	other := w.Engine(t)
	other.Limits.MaxPayload = e.Limits.MaxPayload
	first := enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, s, api.GetContext{}))(t)
	if first.Next == "" {
		t.Fatal("one page")
	}
	next := api.GetContext{Page: api.Page{After: first.Next}}
	if p := enginetest.Must(other.Contexts.Context(t.Context(), enginetest.Alice, s, next))(t); p.Fingerprint != first.Fingerprint {
		t.Errorf("page 2 on a second daemon is of %s, want %s", p.Fingerprint, first.Fingerprint)
	}
	anthropic := next
	anthropic.Format = "anthropic"
	if _, err := e.Contexts.Context(t.Context(), enginetest.Alice, s, anthropic); enginetest.Code(err) != api.Conflict {
		t.Errorf("page 2 in another format: %v, want conflict", err)
	}
	narrow(t, e, s)
	if p := enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, s, next))(t); p.Fingerprint != first.Fingerprint || len(p.Messages) == 0 {
		t.Errorf("page 2 of a context that is remembered: %s, want %s", p.Fingerprint, first.Fingerprint)
	}
	forgets := w.EngineOver(e.Reader.Projections)
	forgets.Limits.MaxPayload = e.Limits.MaxPayload
	if _, err := forgets.Contexts.Context(t.Context(), enginetest.Alice, s, next); enginetest.Code(err) != api.Conflict {
		t.Errorf("page 2 of one that is not: %v, want conflict", err)
	}
}

// So are those of a plan that an agent takes.
func TestPagesOfAPlanAreOfOnePlan(t *testing.T) {
	w, e, s := paged(t)
	first := enginetest.Must(e.Compactions.Take(t.Context(), enginetest.Alice, s, api.TakeCompaction{}))(t)
	if first.Next == "" {
		t.Fatal("one page")
	}
	next := api.TakeCompaction{Page: api.Page{After: first.Next}}
	forgets := w.EngineOver(e.Reader.Projections)
	forgets.Limits.MaxPayload = e.Limits.MaxPayload
	if p := enginetest.Must(forgets.Compactions.Take(t.Context(), enginetest.Alice, s, next))(t); p.Details.Digest != first.Details.Digest || p.Content == "" {
		t.Errorf("page 2 on a second daemon is of %s, want %s", p.Details.Digest, first.Details.Digest)
	}
	other := next
	other.Focus = "something else"
	if _, err := e.Compactions.Take(t.Context(), enginetest.Alice, s, other); enginetest.Code(err) != api.Conflict {
		t.Errorf("page 2 with another focus: %v, want conflict", err)
	}
	narrow(t, e, s)
	if p := enginetest.Must(e.Compactions.Take(t.Context(), enginetest.Alice, s, next))(t); p.Details.Digest != first.Details.Digest {
		t.Errorf("page 2 of a plan that is remembered: %s, want %s", p.Details.Digest, first.Details.Digest)
	}
	forgets = w.EngineOver(e.Reader.Projections)
	forgets.Limits.MaxPayload = e.Limits.MaxPayload
	if _, err := forgets.Compactions.Take(t.Context(), enginetest.Alice, s, next); enginetest.Code(err) != api.Conflict {
		t.Errorf("page 2 of one that is not: %v, want conflict", err)
	}
}

// Pages of compactions are of the head of the first one, and an after that is
// not in a list is refused, not its end.
func TestPagesOfCompactions(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 8000, "nexus")
	var ids []turns.ID
	for k := range 3 {
		for i := range 8 {
			ids = append(ids, enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprintf("question %d %d %s", k, i, enginetest.Text(2000)), "a")).ID)
		}
		enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	}
	list := func(after string, limit int) (*api.TurnList, error) {
		return e.History.ListCompactions(t.Context(), enginetest.Alice, s.ID, api.ListCompactions{Page: api.Page{After: after, Limit: limit}})
	}
	all := enginetest.Must(list("", 0))(t).Turns
	var got []turns.ID
	for after, more := "", true; more; more = after != "" {
		p := enginetest.Must(list(after, 1))(t)
		for _, x := range p.Turns {
			got = append(got, x.ID)
		}
		after = p.Next
		enginetest.Must(e.Sessions.Move(t.Context(), enginetest.Alice, s.ID, api.MoveSession{To: &ids[20-4*len(got)]}, nil))(t)
	}
	if len(all) != 3 || len(got) != 3 || got[0] != all[0].ID || got[2] != all[2].ID {
		t.Errorf("pages %v of %d compactions", got, len(all))
	}
	enginetest.Must(e.Sessions.Move(t.Context(), enginetest.Alice, s.ID, api.MoveSession{To: &all[0].ID}, nil))(t)
	if p := enginetest.Must(list(all[0].ID.String(), 0))(t); len(p.Turns) != 2 {
		t.Errorf("after the first by its id: %d, want 2", len(p.Turns))
	}
	for _, after := range []string{enginetest.ID(t).String(), "nonsense", "3~x~y"} {
		if _, err := list(after, 0); enginetest.Code(err) != api.Malformed {
			t.Errorf("compactions after %s: %v, want malformed", after, err)
		}
		if _, err := e.History.Tree(t.Context(), enginetest.Alice, s.ID, api.GetTree{Page: api.Page{After: after}}); enginetest.Code(err) != api.Malformed {
			t.Errorf("tree after %s: %v, want malformed", after, err)
		}
	}
}

func TestLimitOfAContext(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	enginetest.Add(t, e, s.ID, enginetest.Say("q", "a"))
	for limit, want := range map[int]api.Code{-5: api.Malformed, 0: "", 1: "", 1 << 20: ""} {
		if _, err := e.Contexts.Context(t.Context(), enginetest.Alice, s.ID, api.GetContext{Page: api.Page{Limit: limit}}); enginetest.Code(err) != want {
			t.Errorf("limit %d: %v, want %q", limit, err, want)
		}
	}
}

// A compaction, or a turn that one stands for, that can't be read stops no list:
// it is there by what its header says, with the error.
func TestUnreadableTurnsStopNoListOfCompactions(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 60_000, "nexus")
	talk := func(id turns.ID) (last turns.ID) {
		for i := range 20 {
			last = enginetest.Add(t, e, id, enginetest.Say(fmt.Sprintf("question %d %s", i, enginetest.Text(4000)), "answer")).ID
		}
		return last
	}
	compact := func(id turns.ID) turns.ID {
		return enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, id, api.RunCompaction{}, []byte("{}")))(t).Compaction.ID
	}
	talk(s.ID)
	older := compact(s.ID)
	f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: enginetest.Add(t, e, s.ID, enginetest.Say("q", "a")).ID}, []byte("{}")))(t)
	talk(f.ID)
	newer := compact(f.ID)
	if err := w.Keys.Destroy(s.ID); err != nil {
		t.Fatal(err)
	}
	list := enginetest.Must(e.History.ListCompactions(t.Context(), enginetest.Alice, f.ID, api.ListCompactions{}))(t).Turns
	if len(list) != 2 || list[0].ID != newer || list[1].ID != older || list[1].Error != api.Erased {
		t.Errorf("compactions: %s", enginetest.JSON(list))
	}
	all := enginetest.Must(e.Covered.Expand(t.Context(), enginetest.Alice, f.ID, api.ExpandCompaction{ID: newer, Levels: turns.Raw(`"all"`)}))(t).Turns
	read := 0
	for i, v := range all {
		switch {
		case v.Depth == 0 || i > 0 && v.Depth <= all[i-1].Depth:
			t.Errorf("turn %d has depth %d", i, v.Depth)
		case v.Session == s.ID && v.Error != api.Erased:
			t.Errorf("turn %d of the session without a key: error %q", i, v.Error)
		case v.Session == f.ID && v.Error == "":
			read++
		}
	}
	if len(all) <= 21 || read != len(all)-21 {
		t.Errorf("%d turns, %d of the fork can be read", len(all), read)
	}
}
