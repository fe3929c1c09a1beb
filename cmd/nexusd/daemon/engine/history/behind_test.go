package history_test

import (
	"context"
	"errors"
	"testing"

	"nexus/cmd/nexusd/daemon/engine/enginetest"
	"nexus/ledger"
	"nexus/ledger/api"
)

// A list or a tree has what was acknowledged before it was asked for, of every session
// that it shows, also of those that the request does not name: it waits for the
// projections. With stale_ok it is what they have.
func TestListsAndTreesHaveWhatWasAcknowledged(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	first := enginetest.Add(t, e, s.ID, enginetest.Say("one", "two"))
	fork := enginetest.Must(e.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: first.ID}, []byte("{}")))(t)
	late := w.EngineBehind(t)
	enginetest.Add(t, e, fork.ID, enginetest.Say("three", "four"))

	stale := api.Read{StaleOK: true}
	for name, read := range map[string]func(context.Context, api.Read) error{
		"session.list": func(ctx context.Context, r api.Read) error {
			_, err := late.List(ctx, enginetest.Alice, api.ListSessions{Read: r})
			return err
		},
		"lineage.tree of the parent": func(ctx context.Context, r api.Read) error {
			_, err := late.Tree(ctx, enginetest.Alice, s.ID, api.GetTree{Read: r})
			return err
		},
	} {
		if err := read(t.Context(), api.Read{}); !errors.Is(err, ledger.ErrUnavailable) { // these projections are stopped
			t.Errorf("%s from projections that lack a turn: %v, want unavailable", name, err)
		}
		if err := read(t.Context(), stale); err != nil {
			t.Errorf("%s with stale_ok: %v", name, err)
		}
	}
}
