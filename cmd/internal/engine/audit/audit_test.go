package audit_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// What the projections derived is not believed: a row that differs from the log is
// a problem, and the verification judges what follows it by the log.
func TestVerifyFindsARowThatDiffers(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s, err := e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		answer := turns.TextMessage(turns.Assistant, "answer")
		r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "question")}, Response: &answer}
		if _, err := e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, r, nil); err != nil {
			t.Fatal(err)
		}
	}
	store := changedDatabase(t, w, func(db *pebble.DB) {
		if err := db.DeleteRange([]byte{'n'}, []byte{'n' + 1}, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	})
	v := enginetest.Must(w.EngineOver(store).Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
	if v.Turns != 5 || v.Count != 5 {
		t.Errorf("%+v: want 5 turns, all of them differing, and no chain given up", v)
	}
	for _, p := range v.Problems {
		if p.Code != api.Corrupt || !strings.Contains(p.Message, "row of turn") {
			t.Errorf("%+v", p)
		}
	}
}

// Projections that are behind are not taken for whole.
func TestVerifyWaitsForTheProjections(t *testing.T) {
	w := enginetest.NewWorld()
	enginetest.Must(w.Engine(t).Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}")))(t)
	other := enginetest.NewWorld().Engine(t) // projections of an empty log
	other.Reader.Log, other.Store.Keys, other.Store.Blobs = w.Log, w.Keys, w.Blobs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := other.Audit.Verify(ctx, enginetest.Operator, api.Verify{}); err == nil {
		t.Error("projections that are behind were taken for whole")
	}
}

// What is appended behind the position at which a verification began is not its business:
// the projections may lack it.
func TestVerifyEndsWhereItBegan(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s, err := e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer := turns.TextMessage(turns.Assistant, "answer")
	for range 3 {
		r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "question")}, Response: &answer}
		if _, err := e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, r, nil); err != nil {
			t.Fatal(err)
		}
	}
	last := enginetest.Must(w.Log.State(t.Context()))(t).Last
	behind := w.EngineBehind(t)
	log := &growing{Log: w.Log, grow: func() { enginetest.Add(t, e, s.ID, enginetest.Say("more", "of it")) }}
	behind.Reader.Log = log
	v := enginetest.Must(behind.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
	if !v.OK || v.Turns != 3 || uint64(v.Last) != last {
		t.Errorf("up to the last record when it began: %+v; want 3 turns", v)
	}
}
