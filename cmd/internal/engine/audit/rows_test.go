package audit_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/fxamacker/cbor/v2"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/memlog"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/seal/keyring"
)

// The row of a session is the fold of its chain; whatever of one is changed is found, and
// named. Nothing is found where nothing was changed.
func TestVerifyNamesASessionWhoseRowDiffers(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}")))(t)
	var last *api.Appended
	for n := range 3 {
		answer := turns.TextMessage(turns.Assistant, "answer")
		r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "question")}, Response: &answer, Usage: &turns.Usage{InputTokens: uint64(n)}}
		last = enginetest.Must(e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, r, nil))(t)
	}
	fork := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: last.ID}, []byte("{}")))(t)
	if v := enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t); !v.OK {
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
	return enginetest.Must(w.EngineOver(changedStore(t, w, rowChange(t, change))).Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
}

// rowChange is a change of the value of a row that is stored as CBOR.
func rowChange[Row any](t *testing.T, change func(row *Row, key []byte) bool) func(key, value []byte) []byte {
	return func(key, value []byte) []byte {
		var row Row
		if cbor.Unmarshal(value, &row) != nil || !change(&row, key) {
			return nil
		}
		return enginetest.Must(cbor.Marshal(row))(t)
	}
}

// changedStore makes projections of a ledger, changes the one row for which change returns
// another value, and opens and runs them again. The test's cleanup ends them.
func changedStore(t *testing.T, w *enginetest.World, change func(key, value []byte) []byte) *projections.Store {
	t.Helper()
	return changedDatabase(t, w, func(db *pebble.DB) { changeRow(t, db, change) })
}

// changedDatabase is changedStore with any change of the database.
func changedDatabase(t *testing.T, w *enginetest.World, change func(db *pebble.DB)) *projections.Store {
	t.Helper()
	fs := vfs.NewMem()
	run := func() (store *projections.Store, end func()) {
		store = enginetest.Must(projections.Open(projections.Config{Dir: "p", FS: fs, Ledger: turns.ID(w.ID)}))(t)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- store.Run(ctx, w.Log) }()
		if err := store.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last); err != nil {
			t.Error(err)
		}
		return store, func() {
			stop()
			if err := errors.Join(<-done, store.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	_, end := run()
	end()
	dir := "p"
	for _, at := range enginetest.Must(fs.List("p"))(t) {
		if i, err := fs.Stat(fs.PathJoin("p", at)); err == nil && i.IsDir() {
			dir = fs.PathJoin("p", at)
		}
	}
	db := enginetest.Must(pebble.Open(dir, &pebble.Options{FS: fs}))(t)
	change(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	store, end := run()
	t.Cleanup(end)
	return store
}

func changeRow(t *testing.T, db *pebble.DB, change func(key, value []byte) []byte) {
	t.Helper()
	it := enginetest.Must(db.NewIter(nil))(t)
	changed := 0
	for it.First(); it.Valid(); it.Next() {
		value := change(it.Key(), bytes.Clone(it.Value()))
		if value == nil {
			continue
		}
		if err := db.Set(bytes.Clone(it.Key()), value, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		changed++
	}
	if err := it.Close(); err != nil || changed != 1 {
		t.Fatalf("%d rows were changed: %v", changed, err)
	}
}

// A row that says its chain goes on is not believed, nor is one of a turn whose claims are
// others than the log's, nor that of a label.
func TestVerifyFindsWhatARowSaysBeyondItsChain(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	label := "main"
	s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}, []byte("{}")))(t)
	answer := turns.TextMessage(turns.Assistant, "answer")
	r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "question")}, Response: &answer, Usage: &turns.Usage{InputTokens: 7}}
	enginetest.Must(e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, r, nil))(t)
	if v := enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t); !v.OK {
		t.Fatalf("%+v", v.Problems)
	}
	for name, change := range map[string]func(s *ledger.Session){
		"index": func(s *ledger.Session) { s.Tail.Index++ },
		"seq":   func(s *ledger.Session) { s.Tail.Index++; s.Tail.Seq += 100 },
		"usage": func(s *ledger.Session) { s.Tail.Index += 1 << 60; s.Usage = turns.Usage{} },
	} {
		t.Run(name, func(t *testing.T) {
			v := verifyChanged(t, w, func(row *ledger.Session, key []byte) bool {
				if len(key) != 1+len(s.ID) || row.ID != s.ID {
					return false
				}
				change(row)
				return true
			})
			if len(v.Problems) != 1 || v.Problems[0].Session != s.ID || !strings.Contains(v.Problems[0].Message, "row of session") {
				t.Errorf("the verification found %+v, not the row of session %s", v.Problems, s.ID)
			}
		})
	}
	for name, change := range map[string]func(l *ledger.Label){
		"label":       func(l *ledger.Label) { l.Session[3] ^= 1 },
		"label ahead": func(l *ledger.Label) { l.Tail.Index += 3; l.Tail.Seq += 100 },
		"label tail":  func(l *ledger.Label) { l.Tail.Hash[0] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			v := verifyChanged(t, w, func(row *ledger.Label, key []byte) bool {
				if key[0] != 'l' {
					return false
				}
				change(row)
				return true
			})
			if len(v.Problems) != 1 || !strings.Contains(v.Problems[0].Message, "row of") {
				t.Errorf("the verification found %+v, not the row of the label", v.Problems)
			}
		})
	}
}

// The rows of other chains are compared with what follows from the log, whole.
func TestVerifyFindsAChangedRowOfAnyChain(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	for range 2 {
		save := api.SaveMemory{Kind: "semantic", Visibility: "all", Text: "Tea is " + enginetest.ID(t).String()}
		enginetest.Must(e.Memories.Save(t.Context(), enginetest.Alice, save, enginetest.JSON(save)))(t)
		ev := api.AppendEvent{Channel: "mail", Kind: "note", Body: turns.Raw("{}")}
		enginetest.Must(e.Events.AppendEvent(t.Context(), enginetest.Alice, ev, enginetest.JSON(ev)))(t)
	}
	builtin, _ := policy.Builtin("balanced")
	put := api.PutPolicy{Name: "mine", Settings: turns.Raw(builtin.Bytes())}
	enginetest.Must(e.Policies.PutPolicy(t.Context(), enginetest.Alice, put, enginetest.JSON(put)))(t)
	if v := enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t); !v.OK {
		t.Fatalf("%+v", v.Problems)
	}
	found := func(t *testing.T, v *api.Verified) {
		t.Helper()
		if len(v.Problems) != 1 || !strings.Contains(v.Problems[0].Message, "row of") {
			t.Errorf("the verification found %+v, not the row", v.Problems)
		}
	}
	for name, change := range map[string]func(c *ledger.Channel){
		"agent": func(c *ledger.Channel) { c.Updated++ },
		"tail":  func(c *ledger.Channel) { c.Tail.Hash[0] ^= 1 },
		"ahead": func(c *ledger.Channel) { c.Tail.Index++; c.Count++ },
	} {
		t.Run("channel "+name, func(t *testing.T) {
			found(t, verifyChanged(t, w, func(row *ledger.Channel, key []byte) bool { change(row); return key[0] == 'H' }))
		})
	}
	t.Run("tenant", func(t *testing.T) {
		found(t, verifyChanged(t, w, func(row *ledger.Policies, key []byte) bool { row.Stored++; return key[0] == 'p' }))
	})
	t.Run("policy", func(t *testing.T) {
		found(t, verifyChanged(t, w, func(row *ledger.PolicyName, key []byte) bool { row.Version++; return key[0] == 'b' }))
	})
	t.Run("policy ahead", func(t *testing.T) {
		found(t, verifyChanged(t, w, func(row *ledger.PolicyName, key []byte) bool {
			row.Version++
			row.Seq += 100
			return key[0] == 'b'
		}))
	})
	t.Run("agent", func(t *testing.T) {
		found(t, verifyChanged(t, w, func(row *ledger.Memories, key []byte) bool { row.Stored++; return key[0] == 'y' && key[1] == 'f' }))
	})
}

// What a row of a turn has of its event's claims is compared too.
func TestVerifyComparesEveryFieldOfATurn(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}")))(t)
	answer := turns.TextMessage(turns.Assistant, "answer")
	r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "question")}, Response: &answer, Usage: &turns.Usage{InputTokens: 77}}
	enginetest.Must(e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, r, nil))(t)
	for name, fromEnd := range map[string]int{"recorded": 2, "input": 12} { // its time takes 9 bytes
		t.Run(name, func(t *testing.T) {
			store := changedStore(t, w, func(key, value []byte) []byte {
				if key[0] != 'n' {
					return nil
				}
				if name == "input" && value[len(value)-fromEnd] != 77 {
					t.Fatal("the row has its input elsewhere")
				}
				value[len(value)-fromEnd] ^= 1
				return value
			})
			v := enginetest.Must(w.EngineOver(store).Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
			if len(v.Problems) != 1 || !strings.Contains(v.Problems[0].Message, "row of turn") {
				t.Errorf("the verification found %+v, not the row of the turn", v.Problems)
			}
		})
	}
}

// growing is a log to which something is appended when it begins to be read.
type growing struct {
	*memlog.Log
	grow func()
}

func (g *growing) Read(ctx context.Context, from uint64, follow bool) iter.Seq2[ledger.Record, error] {
	g.grow()
	return g.Log.Read(ctx, from, follow)
}

// The row of a session that grows while it is verified is compared with the fold of what
// came meanwhile: a wrong one is found, and a right one is not taken for a wrong one.
func TestVerifyComparesTheRowOfASessionThatGrows(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	label := "main"
	s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}, []byte("{}")))(t)
	enginetest.Add(t, e, s.ID, enginetest.Say("question", "answer"))
	for _, wrong := range []bool{false, true} {
		store := changedStore(t, w, rowChange(t, func(row *ledger.Session, key []byte) bool {
			if wrong {
				row.Usage.OutputTokens += 5
			}
			return len(key) == 1+len(s.ID) && key[0] == 's' && row.ID == s.ID
		}))
		log := &growing{Log: w.Log}
		over := engine.New(engine.Config{Ledger: w.ID, Log: log, Blobs: w.Blobs, Projections: store, Keys: w.Keys, Now: time.Now, Rand: rand.Reader})
		log.grow = func() {
			for range 3 {
				enginetest.Add(t, w.EngineOver(store), s.ID, enginetest.Say("more", "of it"))
			}
			if err := store.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last); err != nil {
				t.Error(err)
			}
		}
		v := enginetest.Must(over.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
		if v.OK == wrong || wrong && (len(v.Problems) != 1 || v.Problems[0].Session != s.ID || !strings.Contains(v.Problems[0].Message, "row of session")) {
			t.Errorf("wrong row %t: the verification found %+v", wrong, v.Problems)
		}
	}
}

// A session whose content can't be read has a row like any other.
func TestVerifyComparesTheRowOfASessionWithoutItsKey(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}")))(t)
	enginetest.Add(t, e, s.ID, enginetest.Say("question", "answer"))
	w.Keys = new(keyring.Memory)
	v := verifyChanged(t, w, func(row *ledger.Session, key []byte) bool {
		row.Head.Turn[3] ^= 1
		return len(key) == 1+len(s.ID) && key[0] == 's' && row.ID == s.ID
	})
	unread, last := v.Problems[len(v.Problems)-2], v.Problems[len(v.Problems)-1]
	if !strings.Contains(unread.Message, "no key") || last.Session != s.ID || !strings.Contains(last.Message, "row of session") {
		t.Errorf("the verification found %+v", v.Problems)
	}
}

// The settings that were in force and the events of a channel are found by lists of their
// own, which are compared too.
func TestVerifyComparesTheListsOfSettingsAndOfEvents(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}")))(t)
	label := "main"
	set := api.SetSession{SessionSettings: api.SessionSettings{Label: &label}}
	enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s.ID, set, enginetest.JSON(set)))(t)
	ev := api.AppendEvent{Channel: "mail", Kind: "note", Body: turns.Raw("{}")}
	enginetest.Must(e.Events.AppendEvent(t.Context(), enginetest.Alice, ev, enginetest.JSON(ev)))(t)
	for _, prefix := range []byte("gY") {
		t.Run(string(prefix), func(t *testing.T) {
			var gone []byte
			store := changedDatabase(t, w, func(db *pebble.DB) {
				it := enginetest.Must(db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}}))(t)
				if it.Last() {
					gone = bytes.Clone(it.Key())
				}
				if err := errors.Join(it.Close(), db.Delete(gone, pebble.Sync)); err != nil || gone == nil {
					t.Fatalf("no row is gone: %v", err)
				}
			})
			v := enginetest.Must(w.EngineOver(store).Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
			if len(v.Problems) != 1 {
				t.Errorf("the verification found %+v, not the row that is gone", v.Problems)
			}
		})
	}
}
