package history_test

import (
	"context"
	"errors"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// A list or a tree has what was acknowledged before it was asked for, of every session
// that it shows, also of those that the request does not name: it waits for the
// projections. With stale_ok it is what they have.
func TestListsAndTreesHaveWhatWasAcknowledged(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	first := enginetest.Add(t, e, s.ID, enginetest.Say("one", "two"))
	fork := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: first.ID}, []byte("{}")))(t)
	late := w.EngineBehind(t)
	enginetest.Add(t, e, fork.ID, enginetest.Say("three", "four"))

	stale := api.Read{StaleOK: true}
	for name, read := range map[string]func(context.Context, api.Read) error{
		"session.list": func(ctx context.Context, r api.Read) error {
			_, err := late.History.List(ctx, enginetest.Alice, api.ListSessions{Read: r})
			return err
		},
		"lineage.find": func(ctx context.Context, r api.Read) error {
			_, err := late.Sessions.FindNames(ctx, enginetest.Alice, api.FindNames{Name: first.ID.String(), Read: r})
			return err
		},
		"lineage.tree of the parent": func(ctx context.Context, r api.Read) error {
			_, err := late.History.Tree(ctx, enginetest.Alice, s.ID, api.GetTree{Read: r})
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

// Where it is known what was acknowledged, a read does not ask the log.
func TestAReadOfWhatIsKnownAsksNoLog(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 1, "nexus")
	if err := e.Reader.Projections.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last); err != nil {
		t.Fatal(err)
	}
	e.Reader.Log = silent{w.Log}
	for _, known := range []bool{true, false} {
		e.Reader.Acknowledged = func(string) (uint64, bool) { return 0, known }
		got, err := e.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{})
		if known && (err != nil || got.ID != s.ID) || !known && !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("known %v: %+v, %v", known, got, err)
		}
	}
}

// silent is a log that says no end of a chain.
type silent struct{ ledger.Log }

func (silent) Last(context.Context, string) (ledger.Record, error) {
	return ledger.Record{}, ledger.ErrUnavailable
}

// A chain that is set aside while a read asks what was acknowledged of it is no chain that
// ends there: its last record may be dropped from what is known by then.
func TestAChainSetAsideUnderAReadIsNotReadAsWhole(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	bad := &turns.Event{Version: turns.Version, Kind: turns.KindTurn, ID: turns.ID{1}, Chain: turns.SessionChain(s.ID), Index: s.Turns + 1, Prev: s.Hash,
		Recorded: 1, Depth: 1, Segment: turns.ID{2}, Halves: 1}
	payload := enginetest.Must(bad.Encode())(t)
	e.Reader.Acknowledged = func(subject string) (uint64, bool) {
		last := enginetest.Must(w.Log.Last(t.Context(), subject))(t)
		seq := enginetest.Must(w.Log.Append(t.Context(), subject, last.Seq, payload))(t)
		if err := e.Reader.Projections.WaitFor(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		return 0, true // all is applied
	}
	if got, err := e.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("%+v, %v; want corrupt", got, err)
	}
}
