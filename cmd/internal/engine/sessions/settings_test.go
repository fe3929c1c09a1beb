package sessions_test

import (
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// A change that changes nothing has one outcome as well: asked again with its
// id, late, it does not undo what came after it.
func TestChangeWithAnIDIsStoredEvenIfItChangesNothing(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	a := enginetest.Add(t, e, s.ID, enginetest.Say("1", "a"))
	moves := func(id, to turns.ID) (*api.Session, error) {
		r := api.MoveSession{ID: id, To: &to}
		return e.Sessions.Move(t.Context(), enginetest.Alice, s.ID, r, enginetest.JSON(r))
	}
	id := enginetest.ID(t)
	if got := enginetest.Must(moves(id, a.ID))(t); *got.Head != a.ID {
		t.Errorf("head %s, want %s", got.Head, a.ID)
	}
	b := enginetest.Add(t, e, s.ID, enginetest.Say("2", "b"))
	if got := enginetest.Must(moves(id, a.ID))(t); *got.Head != b.ID {
		t.Errorf("a late retry of a move moved the head back: %s, want %s", got.Head, b.ID)
	}
	if _, err := moves(id, b.ID); enginetest.Code(err) != api.IDReused {
		t.Errorf("another move with its id: %v, want id_reused", err)
	}
	end := enginetest.Must(w.Log.State(t.Context()))(t).Last
	enginetest.Must(moves(turns.ID{}, b.ID))(t)
	if now := enginetest.Must(w.Log.State(t.Context()))(t).Last; now != end {
		t.Error("a move without an id that changes nothing was stored")
	}

	ends := func(id turns.ID, cause string) error {
		r := api.CloseSession{ID: id, Cause: cause}
		_, err := e.Sessions.CloseSession(t.Context(), enginetest.Alice, s.ID, r, enginetest.JSON(r))
		return err
	}
	first := enginetest.ID(t)
	for _, x := range []struct {
		id    turns.ID
		cause string
		want  api.Code
	}{{first, "done", ""}, {first, "done", ""}, {first, "another", api.IDReused}, {id, "done", api.IDReused}, {enginetest.ID(t), "done", ""}, {turns.ID{}, "", ""}} {
		if err := ends(x.id, x.cause); enginetest.Code(err) != x.want {
			t.Errorf("close %v %s: %v, want %q", x.id, x.cause, err, x.want)
		}
	}
	enginetest.Verified(t, e)
}
