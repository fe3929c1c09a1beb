package projections

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/apply"
	"nexus/turns"
)

// What reads answer, with the newest rows in memory, is what the database has, after batches of
// every size.
func TestRecentRowsAreThoseOfTheDatabase(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	a := newAuthor(t, seed)
	a.many = true
	a.write(400)
	w := newTwin(t, a.log)
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	for at := uint64(0); at < uint64(len(w.records)); {
		at = min(at+1+uint64(a.rng.IntN(60)), uint64(len(w.records)))
		run(t, s, a.log, at)
		stored := apply.ViewOf(s.db()) // with nothing in memory
		for id := range w.sessions {
			want, err := stored.Session(id)
			if errors.Is(err, ledger.ErrNotFound) {
				continue // behind the checkpoint
			}
			row, err := s.Session(id)
			same(t, "Session", row, want, err)
			for _, e := range w.events[id] {
				want, err := stored.HasEvent(id, e.ID)
				if err != nil {
					t.Fatal(err)
				}
				has, err := s.view().HasEvent(id, e.ID)
				same(t, "HasEvent", has, want, err)
			}
		}
		for ref := range w.turns {
			want, err := stored.Turn(ref)
			if errors.Is(err, lineage.ErrUnknown) {
				continue // behind the checkpoint
			}
			row, err := s.Turn(ref)
			same(t, "Turn", row, want, err)
			for range 2 { // from the database, from memory
				n, err := s.Node(ref)
				same(t, "Node", n, want.Node, err)
			}
		}
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	for id := range w.sessions {
		if _, err := s.Session(id); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("session %s of an empty store: %v", id, err)
		}
	}
	for ref := range w.turns {
		if _, err := s.Node(ref); !errors.Is(err, lineage.ErrUnknown) {
			t.Errorf("turn %s of an empty store: %v", ref, err)
		}
	}
}

// An event that the store was given before it came from the log makes the rows that its
// payload makes. One that is given and never stored makes none.
func TestExpectedEventsMakeTheRowsOfTheirPayloads(t *testing.T) {
	a := newAuthor(t, rand.Uint64())
	a.many, a.usage = true, true
	a.write(400)
	w := newTwin(t, a.log)
	decoding, expecting := openStore(t, vfs.NewMem()), openStore(t, vfs.NewMem())
	defer decoding.Close()
	defer expecting.Close()
	st, err := a.log.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	admitted := 0
	for _, r := range w.records {
		e, err := turns.Decode(r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		var next ledger.Admitted
		if e.Kind == turns.KindTurn { // the writer asks before it knows the position
			tail, err := decoding.Session(e.Ref().Session)
			if err == nil {
				next, err = ledger.Admit(decoding.History(), r.Subject, tail.Tail.Seq+1, r.Hash, e)
			}
			if err != nil {
				t.Fatal(err)
			}
			admitted++
		}
		if err := decoding.applyBatch(decoding.db(), st.Identity, queued{Parsed: decoding.db().Parse(r)}, nil); err != nil {
			t.Fatal(err)
		}
		expecting.Expect(r.Subject, r.Hash, e, &next)
		expecting.Expect(r.Subject, turns.Hash{1, byte(r.Seq), byte(r.Seq >> 8)}, e, &next) // of an append that was refused
		e.Recorded, e.Segment, next = 0, turns.ID{}, ledger.Admitted{}                      // the caller's from now on
		if e.Usage != nil {
			e.Usage.InputTokens++
		}
	}
	if admitted == 0 {
		t.Fatal("no turn")
	}
	run(t, expecting, a.log, last(t, a.log))
	if !bytes.Equal(dump(t, decoding), dump(t, expecting)) {
		t.Error("the rows differ")
	}
}
