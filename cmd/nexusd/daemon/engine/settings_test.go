package engine_test

import (
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A change that changes nothing has one outcome as well: asked again with its
// id, late, it does not undo what came after it.
func TestAChangeOfNothingIsKept(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	a := add(t, e, s.ID, say("1", "a"))
	moves := func(id, to turns.ID) (*api.Session, error) {
		r := api.MoveSession{ID: id, To: &to}
		return e.Move(t.Context(), alice, s.ID, r, canon(r))
	}
	id := newID(t)
	if got := must(moves(id, a.ID))(t); *got.Head != a.ID {
		t.Errorf("head %s, want %s", got.Head, a.ID)
	}
	b := add(t, e, s.ID, say("2", "b"))
	if got := must(moves(id, a.ID))(t); *got.Head != b.ID {
		t.Errorf("a late retry of a move moved the head back: %s, want %s", got.Head, b.ID)
	}
	if _, err := moves(id, b.ID); code(err) != api.IDReused {
		t.Errorf("another move with its id: %v, want id_reused", err)
	}
	end := must(w.Log.State(t.Context()))(t).Last
	must(moves(turns.ID{}, b.ID))(t)
	if now := must(w.Log.State(t.Context()))(t).Last; now != end {
		t.Error("a move without an id that changes nothing was stored")
	}

	ends := func(id turns.ID, cause string) error {
		r := api.CloseSession{ID: id, Cause: cause}
		_, err := e.CloseSession(t.Context(), alice, s.ID, r, canon(r))
		return err
	}
	first := newID(t)
	for _, x := range []struct {
		id    turns.ID
		cause string
		want  api.Code
	}{{first, "done", ""}, {first, "done", ""}, {first, "another", api.IDReused}, {id, "done", api.IDReused}, {newID(t), "done", ""}, {turns.ID{}, "", ""}} {
		if err := ends(x.id, x.cause); code(err) != x.want {
			t.Errorf("close %v %s: %v, want %q", x.id, x.cause, err, x.want)
		}
	}
	verified(t, e)
}
