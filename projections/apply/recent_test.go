package apply

import (
	"errors"
	"reflect"
	"testing"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

func same[T any](t *testing.T, what string, got, want T, err error) {
	t.Helper()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: %+v, %v, want %+v", what, got, err, want)
	}
}

// What is in memory is what the database has, after batches of every size, whether all
// of it fits or nearly nothing.
func TestRecentRowsAreThoseOfTheDatabase(t *testing.T) {
	for _, max := range []int{1, 5, 10_000} {
		w := newWorld(t, uint64(max))
		mem := w.d.recent
		mem.chains.max, mem.turns.max, mem.walked.max = max, max, max
		found, walked := 0, 0
		for range 12 {
			for range 1 + w.rng.IntN(30) {
				if len(w.sessions) == 0 || w.rng.IntN(6) == 0 {
					w.open()
				}
				w.turn(w.sessions[w.rng.IntN(len(w.sessions))])
			}
			w.apply(uint64(len(w.records)))
			stored, now := ViewOf(w.d.DB), w.d.View(turns.ID{})
			for _, s := range w.sessions {
				c := mem.chain(s.ID)
				if c == nil {
					continue
				}
				found++
				row, err := stored.Session(s.ID)
				same(t, "Session", c.session, row, err)
				newest, err := stored.newestID(s.ID)
				same(t, "newestID", c.newest, newest, err)
				for _, id := range append(s.events, w.id()) {
					want, err := stored.HasEvent(s.ID, id)
					if err != nil {
						t.Fatal(err)
					}
					has, err := now.HasEvent(s.ID, id)
					same(t, "HasEvent", has, want, err)
				}
			}
			for _, ref := range w.turns {
				want, err := stored.Turn(ref)
				if row := mem.turn(ref); row != nil {
					same(t, "Turn", *row, want, err)
				}
				for range 2 { // from the database, from memory
					n, err := now.Node(ref)
					same(t, "Node", n, want.Node, err)
				}
			}
			n := len(mem.walked.young) + len(mem.walked.old)
			if walked += n; n > 2*max {
				t.Errorf("%d rows of walks in memory, the bound is two times %d", n, max)
			}
			if n := len(mem.chains.young) + len(mem.chains.old); n > 2*max {
				t.Errorf("%d chains in memory, the bound is two times %d", n, max)
			}
		}
		if found == 0 || max < 10_000 && walked == 0 {
			t.Errorf("%d chains and %d rows of walks were in memory", found, walked)
		}
	}
}

// A walk that read its row before the database was emptied puts nothing into the memory of
// what is there since.
func TestAWalkFromBeforeItWasEmptiedLeavesNothing(t *testing.T) {
	w := newWorld(t, 1)
	row := &rows.Turn{Node: lineage.Node{Ref: turns.Ref{Session: turns.ID{1}, Turn: turns.ID{2}}}}
	mem, view := w.d.recent, w.d.View(turns.ID{})
	_, clears := mem.step(row.Ref)
	if err := w.d.Empty(rows.Checkpoint{Schema: rows.Schema}); err != nil {
		t.Fatal(err)
	}
	mem.addWalked(row, clears)
	if _, err := view.Node(row.Ref); !errors.Is(err, lineage.ErrUnknown) {
		t.Errorf("a row of before: %v", err)
	}
	_, clears = mem.step(row.Ref)
	mem.addWalked(row, clears)
	if _, err := view.Node(row.Ref); err != nil {
		t.Errorf("a row read since: %v", err)
	}
}

// Who has seen a row of an event reads no fold that is older than the event: the old fold
// is removed from memory before the batch commits.
func TestNoFoldIsOlderThanARowThatWasRead(t *testing.T) {
	w := newWorld(t, 3)
	x := w.open()
	w.apply(1)
	w.turn(x)
	batch, err := Begin(w.d, turns.ID{}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close()
	if err := batch.Apply(w.d.Parse(w.records[1])); err != nil {
		t.Fatal(err)
	}
	mem, row := w.d.recent, rows.Number(rows.Events.Key(x.ID), 1)
	mem.mu.Lock() // as long as the fold can't be removed, nothing commits
	done := make(chan error)
	go func() { done <- batch.Commit(w.checkpoint(2)) }()
	for range 50_000 {
		if _, ok, err := db.Get(w.d, row); ok || err != nil {
			t.Errorf("the event is in the database and the fold before it is in memory: %v", err)
			break
		}
	}
	mem.mu.Unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if row, err := w.d.View(turns.ID{}).Session(x.ID); err != nil || row.Tail.Index != 1 {
		t.Errorf("the fold ends at event %d, %v; want 1", row.Tail.Index, err)
	}
}

// An event that is expected is there once, without what the caller changes later. Their number
// is bounded.
func TestExpectedEventsAreUsedOnceAndBounded(t *testing.T) {
	w := newWorld(t, 4)
	x := w.open()
	w.turn(x)
	r := w.records[1]
	e, err := turns.Decode(r.Payload)
	if err != nil {
		t.Fatal(err)
	}
	want := *e
	w.d.Expect(r.Subject, r.Hash, e, new(ledger.Admitted))
	e.Recorded = 0
	first, again := w.d.Parse(r), w.d.Parse(r)
	if first.Event == nil || first.Event.Recorded != want.Recorded || again.Event == first.Event {
		t.Errorf("expected %+v, parsed %+v, and again %+v", want, first.Event, again.Event)
	}
	if w.d.recent.takeEvent(r.Hash) != nil {
		t.Error("the event is still in memory")
	}
	for i := range 5 * recentEvents {
		w.d.Expect("", turns.Hash{2, byte(i), byte(i >> 8)}, &turns.Event{Kind: turns.KindTurn}, new(ledger.Admitted))
	}
	if all := w.d.recent.events; len(all.young)+len(all.old) > 2*recentEvents {
		t.Errorf("%d events are in memory, the bound is two times %d", len(all.young)+len(all.old), recentEvents)
	}
	if _, err := w.d.View(turns.ID{}).Session(x.ID); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("an event that is expected made a row: %v", err)
	}
}
