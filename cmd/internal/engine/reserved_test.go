package engine_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// The ledger's own key is stored under the ledger's id. No request opens a session or
// stores an event under that id, and no export hands out its key.
func TestTheLedgersIDIsReserved(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	a := add(t, e, s.ID, say("one", "two"))
	reserved := turns.ID(w.ID)

	from := newWorld()
	src := from.Engine(t)
	foreign := create(t, src, 0, "nexus")
	add(t, src, foreign.ID, say("three", "four"))
	copied := exports(t, src, foreign.ID)

	opening := &turns.Event{Version: turns.Version, Kind: turns.KindOpened, ID: reserved, Chain: turns.SessionChain(reserved), Root: reserved, Agent: "alice", Recorded: 1,
		Origin: &turns.Origin{Ledger: from.ID, Tenant: "default", Session: reserved}}
	key := must(from.Keys.Create(reserved, rand.Reader))(t)
	opening = sealedUnder(t, from.Keys, opening, &turns.OpenedBody{}, reserved)
	row := must(src.Reader.Projections.Session(foreign.ID))(t)
	reset := &turns.Event{Version: turns.Version, Kind: turns.KindState, ID: newID(t), Chain: turns.SessionChain(foreign.ID), Index: row.Tail.Index + 1, Prev: row.Tail.Hash,
		Recorded: 1, State: turns.Reset, Successor: reserved}

	before := lastSeq(t, w)
	for name, call := range map[string]func() error{
		"session.create": func() error {
			r := api.CreateSession{ID: reserved}
			_, err := e.Sessions.Create(t.Context(), alice, r, canon(r))
			return err
		},
		"fork.create": func() error {
			r := api.CreateFork{ID: reserved, Turn: a.ID}
			_, err := e.Forks.Fork(t.Context(), alice, s.ID, r, canon(r))
			return err
		},
		"turn.append": func() error {
			r := say("five", "six")
			r.ID = reserved
			_, err := e.Sessions.Append(t.Context(), alice, s.ID, r, canon(r))
			return err
		},
		"session.reset": func() error {
			r := api.ResetSession{ID: reserved}
			_, err := e.Sessions.Reset(t.Context(), alice, s.ID, r, canon(r))
			return err
		},
		"session.import of a key": func() error {
			return importAs(t, e, alice, api.ExportRecord{Key: &api.ExportKey{ID: reserved, Key: key[:]}})
		},
		"session.import of an opening": func() error { return importAs(t, e, alice, eventRecord(t, opening)) },
	} {
		if err := call(); code(err) != api.Malformed {
			t.Errorf("%s: %v, want malformed", name, err)
		}
	}
	if after := lastSeq(t, w); after != before {
		t.Errorf("%d events were stored by refused requests", after-before)
	}
	if err := importAs(t, e, alice, slices.Concat(copied, []api.ExportRecord{eventRecord(t, reset)})...); code(err) != api.Malformed {
		t.Errorf("session.import of a reset to it: %v, want malformed", err)
	}

	// A stored session of that id is refused by who reads the log, and shows nothing.
	k := must(e.Store.LedgerKey())(t)
	opening.Origin.Ledger = w.ID
	raw(t, w, e, ledger.SessionSubject("default", reserved, reserved), sealedUnder(t, w.Keys, opening, &turns.OpenedBody{}, reserved))
	if _, err := e.Reader.Projections.Session(reserved); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the session is admitted: %v", err)
	}
	out, err := e.Transfer.Export(t.Context(), alice, reserved, api.ExportSession{})
	if err == nil {
		t.Error("it is exported")
	}
	if out != nil && slices.ContainsFunc(out.Records, func(r api.ExportRecord) bool { return r.Key != nil && seal.Key(r.Key.Key) == k }) {
		t.Error("the ledger's key is handed out")
	}
	if v := must(e.Audit.Verify(t.Context(), operator, api.Verify{}))(t); v.OK || len(v.Problems) != 1 || v.Problems[0].Session != reserved {
		t.Errorf("verify: %s", canon(v))
	}
}
