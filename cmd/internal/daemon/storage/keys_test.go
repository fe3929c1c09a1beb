package storage

import (
	"context"
	"errors"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/seal/keyring"
)

// unread is a log that reads no single record.
type unread struct{ ledger.Log }

var errUnread = errors.New("the stream was read")

func (unread) Get(context.Context, uint64) (ledger.Record, error) {
	return ledger.Record{}, errUnread
}

// The keys are compared with copies of the events, so that a start reads no block of the stream
// for it. What has no copy is read from the stream.
func TestKeysAreCheckedWithoutTheStream(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	enginetest.Create(t, e, 0, "nexus")
	if err := e.Reader.Projections.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last); err != nil {
		t.Fatal(err)
	}
	c := copies{unread{w.Log}, e.Reader.Projections}
	if err := checkKeys(t.Context(), c, new(keyring.Memory), [16]byte{}, givenUp(t.TempDir(), "")); !errors.Is(err, turns.ErrCorrupt) || errors.Is(err, errUnread) {
		t.Errorf("other keys: %v; want corrupt", err)
	}
	if err := checkKeys(t.Context(), c, w.Keys, w.ID, givenUp(t.TempDir(), "")); err != nil {
		t.Errorf("its own keys: %v", err)
	}
	if sealed, err := isSealed(t.Context(), c); !sealed || err != nil {
		t.Errorf("sealed: %v, %v", sealed, err)
	}
	if _, err := c.Get(t.Context(), 1000); !errors.Is(err, errUnread) {
		t.Errorf("a record that has no copy: %v", err)
	}
}

func TestALedgerWithoutSealedEventsIsNotSealed(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	e.Store.Keys = nil
	for range 2 { // empty, then not
		if sealed, err := isSealed(t.Context(), w.Log); err != nil || sealed {
			t.Errorf("%v, %v", sealed, err)
		}
		enginetest.Create(t, e, 0, "nexus")
	}
}
