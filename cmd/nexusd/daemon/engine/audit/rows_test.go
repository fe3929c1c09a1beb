package audit_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/fxamacker/cbor/v2"

	"nexus/cmd/nexusd/daemon/engine/enginetest"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
)

// The row of a session is the fold of its chain; whatever of one is changed is found, and
// named. Nothing is found where nothing was changed.
func TestVerifyNamesASessionWhoseRowDiffers(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Must(e.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}")))(t)
	var last *api.Appended
	for n := range 3 {
		answer := turns.TextMessage(turns.Assistant, "answer")
		r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "question")}, Response: &answer, Usage: &turns.Usage{InputTokens: uint64(n)}}
		last = enginetest.Must(e.Append(t.Context(), enginetest.Alice, s.ID, r, nil))(t)
	}
	fork := enginetest.Must(e.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: last.ID}, []byte("{}")))(t)
	if v := enginetest.Must(e.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t); !v.OK {
		t.Fatalf("%+v", v.Problems)
	}
	for name, tc := range map[string]struct {
		id     turns.ID
		change func(s *ledger.Session)
	}{
		"head":     {s.ID, func(s *ledger.Session) { s.Head.Turn[3] ^= 1 }},
		"agent":    {s.ID, func(s *ledger.Session) { s.Agent = "bob" }},
		"turns":    {s.ID, func(s *ledger.Session) { s.Turns-- }},
		"usage":    {s.ID, func(s *ledger.Session) { s.Usage.InputTokens++ }},
		"settings": {s.ID, func(s *ledger.Session) { s.Settings = 2 }},
		"closed":   {s.ID, func(s *ledger.Session) { s.State = turns.Closed }},
		"time":     {s.ID, func(s *ledger.Session) { s.Updated++ }},
		"tail":     {s.ID, func(s *ledger.Session) { s.Tail.Index-- }},
		"forked":   {fork.ID, func(s *ledger.Session) { s.ForkOf.Mode = turns.Full }},
		"no fork":  {fork.ID, func(s *ledger.Session) { s.ForkOf = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			v := verifyChanged(t, w, func(row *ledger.Session, key []byte) bool {
				if len(key) != 1+len(tc.id) || !bytes.HasSuffix(key, tc.id[:]) || row.ID != tc.id {
					return false
				}
				tc.change(row)
				return true
			})
			if len(v.Problems) == 0 || v.Problems[0].Session != tc.id || !strings.Contains(v.Problems[0].Message, "row of session") {
				t.Errorf("the verification found %+v, not the row of session %s", v.Problems, tc.id)
			}
		})
	}
}

// verifyChanged makes projections of a ledger, changes the one row that change takes in
// their files, and verifies the ledger with them. Change returns false for another row.
func verifyChanged[Row any](t *testing.T, w *enginetest.World, change func(row *Row, key []byte) bool) *api.Verified {
	t.Helper()
	fs := vfs.NewMem()
	open := func() *projections.Store {
		return enginetest.Must(projections.Open(projections.Config{Dir: "p", FS: fs, Ledger: turns.ID(w.ID)}))(t)
	}
	run := func(store *projections.Store) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- store.Run(ctx, w.Log) }()
		err := store.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last)
		if stop(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	store := open()
	run(store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	changeRow(t, fs, change)
	store = open()
	defer store.Close()
	run(store)
	return enginetest.Must(w.EngineOver(store).Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
}

func changeRow[Row any](t *testing.T, fs vfs.FS, change func(row *Row, key []byte) bool) {
	t.Helper()
	dir := "p"
	for _, at := range enginetest.Must(fs.List("p"))(t) {
		if i, err := fs.Stat(fs.PathJoin("p", at)); err == nil && i.IsDir() {
			dir = fs.PathJoin("p", at)
		}
	}
	db := enginetest.Must(pebble.Open(dir, &pebble.Options{FS: fs}))(t)
	defer db.Close()
	it := enginetest.Must(db.NewIter(nil))(t)
	changed := 0
	for it.First(); it.Valid(); it.Next() {
		var row Row
		if cbor.Unmarshal(it.Value(), &row) != nil || !change(&row, it.Key()) {
			continue
		}
		if err := db.Set(bytes.Clone(it.Key()), enginetest.Must(cbor.Marshal(row))(t), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		changed++
	}
	if err := it.Close(); err != nil || changed != 1 {
		t.Fatalf("%d rows were changed: %v", changed, err)
	}
}
