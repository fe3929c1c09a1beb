package audit_test

import (
	"context"
	"testing"

	"nexus/cmd/nexusd/daemon/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// What the projections derived is not believed: a row that differs from the log is
// a problem, and the verification judges what follows it by the log.
func TestVerifyFindsARowThatDiffers(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s, err := e.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		answer := turns.TextMessage(turns.Assistant, "answer")
		r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "question")}, Response: &answer}
		if _, err := e.Append(t.Context(), enginetest.Alice, s.ID, r, nil); err != nil {
			t.Fatal(err)
		}
	}
	other := enginetest.NewWorld().Engine(t) // projections of an empty log
	other.Log, other.Keys, other.Blobs = e.Log, e.Keys, e.Blobs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := other.Verify(ctx, enginetest.Operator, api.Verify{}); err == nil {
		t.Error("projections that are behind were taken for whole")
	}
	st, err := w.Log.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := other.Follow(t.Context(), enginetest.Operator, st.Last)
	if err != nil {
		t.Fatal(err)
	}
	if got.Turns != 5 || got.Differing != 5 || got.Broken != 0 {
		t.Errorf("%+v: want 5 turns, all of them differing, and no chain given up", got)
	}
	for _, p := range got.Problems {
		if p.Code != api.Corrupt {
			t.Errorf("%+v", p)
		}
	}
}

// What is appended behind the position at which a verification began is not its business:
// the projections may lack it.
func TestVerifyEndsWhereItBegan(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s, err := e.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer := turns.TextMessage(turns.Assistant, "answer")
	for range 3 {
		r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "question")}, Response: &answer}
		if _, err := e.Append(t.Context(), enginetest.Alice, s.ID, r, nil); err != nil {
			t.Fatal(err)
		}
	}
	st, err := w.Log.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Follow(t.Context(), enginetest.Operator, st.Last-1)
	if err != nil || got.Turns != 2 || len(got.Problems) > 0 {
		t.Errorf("up to the record before the last: %+v, %v; want 2 turns", got, err)
	}
}
