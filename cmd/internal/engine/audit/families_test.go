package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/compactor"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/projections/rows"
	"nexus/turns"
)

// learner is a summarizer that learns the same of everything.
type learner struct{}

func (learner) Summarize(context.Context, summary.Input) (summary.Output, error) {
	return summary.Output{Text: "s", Memories: []summary.Memory{{Text: "The user likes tea."}}}, nil
}

// livedIn returns a ledger whose projections have rows of every family, two chains that were
// set aside among them.
func livedIn(t *testing.T) (*enginetest.World, *engine.Engine) {
	t.Helper()
	w := enginetest.NewWorld()
	e := w.Engine(t)
	ctx, alice := t.Context(), enginetest.Alice
	e.Loader.Tiers = []compactor.Tier{{Name: "learner", Summarizer: learner{}, Local: true}}

	builtin, _ := policy.Builtin("balanced")
	put := api.PutPolicy{Name: "mine", Settings: turns.Raw(builtin.Bytes())}
	enginetest.Must(e.Policies.PutPolicy(ctx, alice, put, enginetest.JSON(put)))(t)

	label := "main"
	r := api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, Limits: &turns.Limits{ContextWindow: 8000},
		Policy: &api.Policy{Name: "gsv", Set: turns.Raw(`{"reset":{"mode":"daily","hour":3}}`)}}}
	s := enginetest.Must(e.Sessions.Create(ctx, alice, r, []byte("{}")))(t)
	var all []*api.Appended
	for range 2 { // compactions
		for range 12 {
			all = append(all, enginetest.Add(t, e, s.ID, enginetest.Say(enginetest.Text(3000), "b")))
		}
		if run := enginetest.Must(e.Compactions.Compact(ctx, alice, s.ID, api.RunCompaction{}, []byte("{}")))(t); run.Compaction == nil {
			t.Fatalf("%+v", run)
		}
	}
	note := api.NoteTurn{Turn: all[0].ID, Text: "noted"}
	enginetest.Must(e.Sessions.Note(ctx, alice, s.ID, note, enginetest.JSON(note)))(t)
	redact := api.RedactTurn{Turn: all[1].ID, Parts: []int{1}}
	enginetest.Must(e.Erasure.Redact(ctx, enginetest.Operator, s.ID, redact, enginetest.JSON(redact)))(t)
	back := all[len(all)-2].ID
	enginetest.Must(e.Sessions.Move(ctx, alice, s.ID, api.MoveSession{To: &back}, []byte("{}")))(t)
	fork := enginetest.Must(e.Forks.Fork(ctx, alice, s.ID, api.CreateFork{Turn: all[1].ID}, []byte("{}")))(t)
	enginetest.Add(t, e, fork.ID, enginetest.Say("on a branch", "yes"))

	by := &api.SpawnedBy{Session: s.ID}
	enginetest.Must(e.Sessions.Create(ctx, alice, api.CreateSession{SpawnedBy: by}, []byte("{}")))(t)
	later := enginetest.Must(e.Sessions.Create(ctx, alice, api.CreateSession{}, []byte("{}")))(t)
	enginetest.Must(e.Sessions.Set(ctx, alice, later.ID, api.SetSession{SpawnedBy: by}, []byte("{}")))(t)

	ev := api.AppendEvent{Channel: "mail", Kind: "note", Body: turns.Raw("{}")}
	mail := enginetest.Must(e.Events.AppendEvent(ctx, alice, ev, enginetest.JSON(ev)))(t)
	names := enginetest.Say("a mail", "read")
	names.Meta = turns.Raw(fmt.Sprintf(`{"event":{"channel":"mail","id":%q}}`, mail.ID))
	enginetest.Add(t, e, s.ID, names)

	save := func(r api.SaveMemory) *api.Memory {
		return enginetest.Must(e.Memories.Save(ctx, alice, r, enginetest.JSON(r)))(t)
	}
	first := save(api.SaveMemory{Kind: "semantic", Visibility: "all", Text: "The owner is Ada."})
	save(api.SaveMemory{Kind: "semantic", Visibility: "all", Text: "The owner is Ada."})
	save(api.SaveMemory{Kind: "semantic", Visibility: "all", Text: "Ada decides.", From: []turns.ID{first.ID}})
	save(api.SaveMemory{Kind: "daily", Visibility: "all", Text: "Rain."})
	text := "# Notes"
	doc := api.MemoryDocument{Text: &text, If: "0"}
	enginetest.Must(e.Memories.Document(ctx, alice, doc, enginetest.JSON(doc)))(t)

	gone := enginetest.Must(e.Sessions.Create(ctx, alice, api.CreateSession{}, []byte("{}")))(t)
	enginetest.Must(e.Erasure.Erase(ctx, enginetest.Operator, gone.ID, api.EraseSession{}))(t)

	// A record that is no event takes the place of a turn, and another turn follows.
	lost := enginetest.Must(e.Sessions.Create(ctx, alice, api.CreateSession{}, []byte("{}")))(t)
	enginetest.Add(t, e, lost.ID, enginetest.Say("question", "answer"))
	row := enginetest.Must(e.Reader.Projections.Session(lost.ID))(t)
	subject := row.Subject()
	tail := enginetest.Must(w.Log.Last(ctx, subject))(t)
	after := enginetest.Must(turns.Decode(tail.Payload))(t)
	notAnEvent := enginetest.Must(w.Log.Append(ctx, subject, tail.Seq, []byte("lost")))(t)
	after.Index, after.Prev, after.Parent = after.Index+2, turns.Hash{1}, turns.Ref{Session: lost.ID, Turn: enginetest.ID(t)}
	after.ID, after.Depth = enginetest.ID(t), after.Depth+2
	seq := enginetest.Must(w.Log.Append(ctx, subject, notAnEvent, enginetest.Must(after.Encode())(t)))(t)
	if err := e.Reader.Projections.WaitFor(ctx, seq); err != nil {
		t.Fatal(err)
	}
	return w, e
}

// Whatever row is deleted, changed or added, of any family, is found and named. Where none is,
// nothing is found.
func TestVerifyFindsAnyRowOfAnyFamily(t *testing.T) {
	w, e := livedIn(t)
	sound := enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
	if len(sound.Problems) != 1 { // the record that is no event
		t.Fatalf("without a change: %+v", sound.Problems)
	}
	for _, family := range rows.Families() {
		if family == "c" {
			continue // a start compares it with the log: projections.TestCompareFindsAWrongCheckpoint
		}
		for _, change := range []string{"missing", "differs", "extra"} {
			t.Run(family+" "+change, func(t *testing.T) {
				store := changedDatabase(t, w, func(db *pebble.DB) { changeFamily(t, db, family, change) })
				v := enginetest.Must(w.EngineOver(store).Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
				want := map[string]string{"missing": "lack the row of ", "differs": "row of ", "extra": "have a row of "}[change]
				if family == "p" && change == "extra" {
					want = "of another tenant" // whose rows are not named
				}
				named := slices.DeleteFunc(slices.Clone(v.Problems), func(p api.Problem) bool { return !strings.Contains(p.Message, want) })
				if v.OK || len(named) != 1 || len(v.Problems) > len(sound.Problems)+2 {
					t.Errorf("the verification found %+v, not the one row", v.Problems)
				}
			})
		}
	}
}

// changeFamily changes one row of a family, in the middle of its rows.
func changeFamily(t *testing.T, db *pebble.DB, family, change string) {
	t.Helper()
	it := enginetest.Must(db.NewIter(&pebble.IterOptions{LowerBound: []byte(family), UpperBound: []byte(family[:len(family)-1] + string(family[len(family)-1]+1))}))(t)
	var keys, values [][]byte
	for it.First(); it.Valid(); it.Next() {
		keys, values = append(keys, bytes.Clone(it.Key())), append(values, bytes.Clone(it.Value()))
	}
	if err := it.Close(); err != nil || len(keys) == 0 {
		t.Fatalf("there is no row: %v", err)
	}
	k, v := bytes.Clone(keys[len(keys)/2]), values[len(keys)/2]
	var err error
	switch change {
	case "missing":
		err = db.Delete(k, pebble.Sync)
	case "differs":
		if len(v) == 0 {
			v = []byte{0}
		}
		v[min(7, len(v)-1)] ^= 1
		err = db.Set(k, v, pebble.Sync)
	case "extra":
		last := len(k) - 1
		if k[last] == 0 { // of a text
			k = append(k[:last], 'x', 0)
		} else {
			k[last] ^= 0x40
		}
		for slices.ContainsFunc(keys, func(o []byte) bool { return bytes.Equal(o, k) }) {
			t.Fatal("the row is there")
		}
		err = db.Set(k, v, pebble.Sync)
	}
	if err = errors.Join(err, db.Flush()); err != nil {
		t.Fatal(err)
	}
}

// A verification beside appends finds nothing: what comes while it runs is none of its
// business, and what it compares does not move.
func TestVerifyBesideAppendsFindsNothing(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	shared := enginetest.Create(t, e, 0, "nexus")
	var wg sync.WaitGroup
	var running atomic.Int32
	for i := range 3 {
		running.Add(1)
		wg.Go(func() {
			defer running.Add(-1)
			for n := range 120 {
				if err := appendSome(t, e, shared.ID, i, n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for rounds := 0; running.Load() > 0 || rounds < 3; rounds++ {
		enginetest.Verified(t, e)
		v := enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Alice, api.Verify{Sessions: []turns.ID{shared.ID}}))(t)
		if !v.OK {
			t.Errorf("of the session: %+v", v.Problems)
		}
	}
	wg.Wait()
	enginetest.Verified(t, e)
}

// appendSome stores the nth thing of a writer: rows of most families.
func appendSome(t *testing.T, e *engine.Engine, shared turns.ID, writer, n int) error {
	ctx, alice := t.Context(), enginetest.Alice
	switch n % 6 {
	case 0:
		s, err := e.Sessions.Create(ctx, alice, api.CreateSession{}, []byte("{}"))
		if err != nil {
			return err
		}
		a, err := e.Sessions.Append(ctx, alice, s.ID, enginetest.Say("question", "answer"), nil)
		if err != nil {
			return err
		}
		f, err := e.Forks.Fork(ctx, alice, s.ID, api.CreateFork{Turn: a.ID}, []byte("{}"))
		if err != nil {
			return err
		}
		k := api.RecordCompaction{FirstKept: a.ID, Replacement: []turns.Message{turns.TextMessage(turns.User, "before")}}
		_, err = e.Compactions.Record(ctx, alice, f.ID, k, nil)
		return err
	case 1:
		r := api.SaveMemory{Kind: "daily", Visibility: "all", Text: fmt.Sprintf("The number is %d.", n%5)}
		_, err := e.Memories.Save(ctx, alice, r, enginetest.JSON(r))
		return err
	case 2:
		r := api.AppendEvent{Channel: fmt.Sprintf("mail-%d", writer), Kind: "note", Body: turns.Raw("{}")}
		_, err := e.Events.AppendEvent(ctx, alice, r, enginetest.JSON(r))
		return err
	}
	_, err := e.Sessions.Append(ctx, alice, shared, enginetest.Say("question", "answer"), nil)
	if enginetest.Code(err) == api.Conflict {
		err = nil // another writer moved the head
	}
	return err
}
