package projections

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// What is in memory is what the database has, after batches of every size, whether all
// of it fits or nearly nothing.
func TestRecentRowsAreThoseOfTheDatabase(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	a := newAuthor(t, seed)
	a.many = true
	a.write(400)
	w := newTwin(t, a.log)
	walked := 0
	for _, max := range []int{1, 5, 10_000} {
		s := openStore(t, vfs.NewMem())
		held := 0
		for at := uint64(0); at < uint64(len(w.records)); {
			at = min(at+1+uint64(a.rng.IntN(60)), uint64(len(w.records)))
			mem := s.db().recent
			mem.chains.max, mem.turns.max, mem.walked.max = max, max, max
			run(t, s, a.log, at)
			stored := s.view()
			stored.recent = newRecent() // empty: its answers are the database's
			for id := range w.sessions {
				c := mem.chain(id)
				if c == nil {
					continue
				}
				held++
				row, err := stored.Session(id)
				same(t, "Session", c.session, row, err)
				newest, err := stored.newestID(id)
				same(t, "newestID", c.newest, newest, err)
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
				if row := mem.turn(ref); row != nil {
					same(t, "Turn", *row, want, err)
				}
				for range 2 { // from the database, from memory
					n, err := s.Node(ref)
					same(t, "Node", n, want.Node, err)
				}
			}
			n := len(mem.walked.young) + len(mem.walked.old)
			if walked += n; n > 2*max {
				t.Errorf("%d rows of walks in memory, the bound is two times %d", n, max)
			}
			if n := len(mem.chains.young) + len(mem.chains.old); n > 2*max+batchRecords {
				t.Errorf("%d chains in memory, the bound is two times %d", n, max)
			}
		}
		if held == 0 {
			t.Error("no chain was in memory")
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
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if walked == 0 {
		t.Error("no row of a walk was in memory")
	}
}

// A walk that read its row before the store was emptied puts nothing into the memory of
// what is there since.
func TestAWalkFromBeforeAClearLeavesNothing(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	row := &rows.Turn{Node: lineage.Node{Ref: turns.Ref{Session: turns.ID{1}, Turn: turns.ID{2}}}}
	mem := s.db().recent
	_, clears := mem.step(row.Ref)
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	mem.addWalked(row, clears)
	if _, err := s.Node(row.Ref); !errors.Is(err, lineage.ErrUnknown) {
		t.Errorf("a row of the store before: %v", err)
	}
	_, clears = mem.step(row.Ref)
	mem.addWalked(row, clears)
	if _, err := s.Node(row.Ref); err != nil {
		t.Errorf("a row read since: %v", err)
	}
}

// Who has seen a row of an event reads no fold that is older than the event: the old fold
// is taken out of memory before the batch commits.
func TestNoFoldIsOlderThanARowThatWasRead(t *testing.T) {
	a := newAuthor(t, 3)
	x := a.open(nil)
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	run(t, s, a.log, 1)
	a.turn(x)
	r, err := a.log.Get(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := newApplier(s.db(), s.ledger, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.batch.Close()
	if err := batch.apply(s.db().parse(r)); err != nil {
		t.Fatal(err)
	}
	mem, row := s.db().recent, rows.Number(rows.Events.Key(x.ID), 1)
	mem.mu.Lock() // as long as the fold can't be taken out, nothing commits
	done := make(chan error)
	go func() { done <- batch.commit(rows.Checkpoint{Seq: 2, Schema: rows.Schema}) }()
	for range 50_000 {
		if _, ok, err := db.Get(s.db(), row); ok || err != nil {
			t.Errorf("the event is in the database and the fold before it is in memory: %v", err)
			break
		}
	}
	mem.mu.Unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if row, err := s.Session(x.ID); err != nil || row.Tail.Index != 1 {
		t.Errorf("the fold ends at event %d, %v; want 1", row.Tail.Index, err)
	}
}

// An event that the store was given before it came from the log makes the rows that its
// payload makes, is taken once, and is bounded. One that is given and never stored, or
// whose payload was altered, makes none.
func TestExpectedEventsMakeTheRowsOfTheirPayloads(t *testing.T) {
	a := newAuthor(t, rand.Uint64())
	a.many, a.usage = true, true
	a.write(400)
	w := newTwin(t, a.log)
	decoding, expecting := openStore(t, vfs.NewMem()), openStore(t, vfs.NewMem())
	defer decoding.Close()
	defer expecting.Close()
	expecting.db().recent.events.max = len(w.records)
	for _, r := range w.records {
		e, err := turns.Decode(r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		expecting.Expect(r.Hash, e)
		expecting.Expect(turns.Hash{1, byte(r.Seq), byte(r.Seq >> 8)}, e) // of an append that was refused
		e.Recorded, e.Segment = 0, turns.ID{}                             // the caller's from now on
		if e.Usage != nil {
			e.Usage.InputTokens++
		}
	}
	run(t, decoding, a.log, last(t, a.log))
	run(t, expecting, a.log, last(t, a.log))
	if !bytes.Equal(dump(t, decoding), dump(t, expecting)) {
		t.Error("the rows differ")
	}
	left := expecting.db().recent.events
	for _, r := range w.records {
		if left.get(r.Hash) != nil {
			t.Fatalf("the event of record %d is still held", r.Seq)
		}
	}
	expecting.db().recent.events = generations[turns.Hash, *turns.Event]{max: recentEvents}
	for i := range 5 * recentEvents {
		expecting.Expect(turns.Hash{2, byte(i), byte(i >> 8)}, &turns.Event{Kind: turns.KindTurn})
	}
	if left = expecting.db().recent.events; len(left.young)+len(left.old) > 2*recentEvents {
		t.Errorf("%d events are held, the bound is two times %d", len(left.young)+len(left.old), recentEvents)
	}
}
