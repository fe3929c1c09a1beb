package engine_test

import (
	"fmt"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// narrow changes the settings that contexts and plans depend on.
func narrow(t *testing.T, e *Engine, s turns.ID) {
	t.Helper()
	l := turns.Limits{ContextWindow: 12_000}
	must(e.Set(t.Context(), alice, s, api.SetSession{SessionSettings: api.SessionSettings{Limits: &l}}, []byte("{}")))(t)
}

// paged is a session whose contexts and plans take several pages.
func paged(t *testing.T) (w *world, e *Engine, s turns.ID) {
	t.Helper()
	w = newWorld()
	e = w.Engine(t)
	e.MaxPayload = 64 << 10
	s = create(t, e, 60_000, "nexus").ID
	for i := range 40 {
		add(t, e, s, say(fmt.Sprintf("question %d %s", i, long(4000)), "answer"))
	}
	return w, e, s
}

// All pages of a context are of one context, also when the settings change
// between them: else the next page is a conflict.
func TestPagesOfAContextAreOfOneContext(t *testing.T) {
	w, e, s := paged(t)
	other := w.Engine(t)
	other.MaxPayload = e.MaxPayload
	first := must(e.Context(t.Context(), alice, s, api.GetContext{}))(t)
	if first.Next == "" {
		t.Fatal("one page")
	}
	next := api.GetContext{Page: api.Page{After: first.Next}}
	if p := must(other.Context(t.Context(), alice, s, next))(t); p.Fingerprint != first.Fingerprint {
		t.Errorf("page 2 on a second daemon is of %s, want %s", p.Fingerprint, first.Fingerprint)
	}
	anthropic := next
	anthropic.Format = "anthropic"
	if _, err := e.Context(t.Context(), alice, s, anthropic); code(err) != api.Conflict {
		t.Errorf("page 2 in another format: %v, want conflict", err)
	}
	narrow(t, e, s)
	if p := must(e.Context(t.Context(), alice, s, next))(t); p.Fingerprint != first.Fingerprint || len(p.Messages) == 0 {
		t.Errorf("page 2 of a context that is remembered: %s, want %s", p.Fingerprint, first.Fingerprint)
	}
	forgets := newEngine(w, e.Projections)
	forgets.MaxPayload = e.MaxPayload
	if _, err := forgets.Context(t.Context(), alice, s, next); code(err) != api.Conflict {
		t.Errorf("page 2 of one that is not: %v, want conflict", err)
	}
}

// So are those of a plan that an agent takes.
func TestPagesOfAPlanAreOfOnePlan(t *testing.T) {
	w, e, s := paged(t)
	first := must(e.Take(t.Context(), alice, s, api.TakeCompaction{}))(t)
	if first.Next == "" {
		t.Fatal("one page")
	}
	next := api.TakeCompaction{Page: api.Page{After: first.Next}}
	forgets := newEngine(w, e.Projections)
	forgets.MaxPayload = e.MaxPayload
	if p := must(forgets.Take(t.Context(), alice, s, next))(t); p.Details.Digest != first.Details.Digest || p.Content == "" {
		t.Errorf("page 2 on a second daemon is of %s, want %s", p.Details.Digest, first.Details.Digest)
	}
	other := next
	other.Focus = "something else"
	if _, err := e.Take(t.Context(), alice, s, other); code(err) != api.Conflict {
		t.Errorf("page 2 with another focus: %v, want conflict", err)
	}
	narrow(t, e, s)
	if p := must(e.Take(t.Context(), alice, s, next))(t); p.Details.Digest != first.Details.Digest {
		t.Errorf("page 2 of a plan that is remembered: %s, want %s", p.Details.Digest, first.Details.Digest)
	}
	forgets = newEngine(w, e.Projections)
	forgets.MaxPayload = e.MaxPayload
	if _, err := forgets.Take(t.Context(), alice, s, next); code(err) != api.Conflict {
		t.Errorf("page 2 of one that is not: %v, want conflict", err)
	}
}

// Pages of compactions are of the head of the first one, and an after that is
// not in a list is refused, not its end.
func TestPagesOfCompactions(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 8000, "nexus")
	var ids []turns.ID
	for k := range 3 {
		for i := range 8 {
			ids = append(ids, add(t, e, s.ID, say(fmt.Sprintf("question %d %d %s", k, i, long(2000)), "a")).ID)
		}
		must(e.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	}
	list := func(after string, limit int) (*api.TurnList, error) {
		return e.ListCompactions(t.Context(), alice, s.ID, api.ListCompactions{Page: api.Page{After: after, Limit: limit}})
	}
	all := must(list("", 0))(t).Turns
	var got []turns.ID
	for after, more := "", true; more; more = after != "" {
		p := must(list(after, 1))(t)
		for _, x := range p.Turns {
			got = append(got, x.ID)
		}
		after = p.Next
		must(e.Move(t.Context(), alice, s.ID, api.MoveSession{To: &ids[20-4*len(got)]}, nil))(t)
	}
	if len(all) != 3 || len(got) != 3 || got[0] != all[0].ID || got[2] != all[2].ID {
		t.Errorf("pages %v of %d compactions", got, len(all))
	}
	must(e.Move(t.Context(), alice, s.ID, api.MoveSession{To: &all[0].ID}, nil))(t)
	if p := must(list(all[0].ID.String(), 0))(t); len(p.Turns) != 2 {
		t.Errorf("after the first by its id: %d, want 2", len(p.Turns))
	}
	for _, after := range []string{newID(t).String(), "nonsense", "3~x~y"} {
		if _, err := list(after, 0); code(err) != api.Malformed {
			t.Errorf("compactions after %s: %v, want malformed", after, err)
		}
		if _, err := e.Tree(t.Context(), alice, s.ID, api.GetTree{Page: api.Page{After: after}}); code(err) != api.Malformed {
			t.Errorf("tree after %s: %v, want malformed", after, err)
		}
	}
}

func TestLimitOfAContext(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("q", "a"))
	for limit, want := range map[int]api.Code{-5: api.Malformed, 0: "", 1: "", 1 << 20: ""} {
		if _, err := e.Context(t.Context(), alice, s.ID, api.GetContext{Page: api.Page{Limit: limit}}); code(err) != want {
			t.Errorf("limit %d: %v, want %q", limit, err, want)
		}
	}
}

// A compaction, or a turn that one stands for, that can't be read stops no list:
// it is there by what its header says, with the error.
func TestUnreadableTurnsStopNoListOfCompactions(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 60_000, "nexus")
	talk := func(id turns.ID) (last turns.ID) {
		for i := range 20 {
			last = add(t, e, id, say(fmt.Sprintf("question %d %s", i, long(4000)), "answer")).ID
		}
		return last
	}
	compact := func(id turns.ID) turns.ID {
		return must(e.Compact(t.Context(), alice, id, api.RunCompaction{}, []byte("{}")))(t).Compaction.ID
	}
	talk(s.ID)
	older := compact(s.ID)
	f := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: add(t, e, s.ID, say("q", "a")).ID}, []byte("{}")))(t)
	talk(f.ID)
	newer := compact(f.ID)
	if err := w.Keys.Destroy(s.ID); err != nil {
		t.Fatal(err)
	}
	list := must(e.ListCompactions(t.Context(), alice, f.ID, api.ListCompactions{}))(t).Turns
	if len(list) != 2 || list[0].ID != newer || list[1].ID != older || list[1].Error != api.Erased {
		t.Errorf("compactions: %s", canon(list))
	}
	all := must(e.Expand(t.Context(), alice, f.ID, api.ExpandCompaction{ID: newer, Levels: turns.Raw(`"all"`)}))(t).Turns
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
