package costs

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/ledger/api"
)

// A page does not wait for a reading that takes long: it has how far that is, then its sums, and
// those sums while a later one goes on. Whoever asks meanwhile begins no other.
func TestAPageHasTheSumsOfBeforeWhileNewOnesAreAddedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k sums
		scope, goOn := sumScope{tenant: "t"}, make(chan error)
		var begun atomic.Uint64
		read := func(a *added) {
			a.calls.Add(begun.Add(1))
			a.found = &cost.Found{}
			a.err = <-goOn
		}
		for range 2 {
			if done, running, failed := k.get(t.Context(), scope, read); done != nil || running == nil || running.calls.Load() != 1 || failed != nil {
				t.Fatalf("a first reading under way: %v, %v, %v", done, running, failed)
			}
		}
		_, running, _ := k.get(t.Context(), scope, read)
		goOn <- nil
		<-running.ended
		first, running, _ := k.get(t.Context(), scope, read)
		if first == nil || first.err != nil || running != nil || begun.Load() != 1 {
			t.Fatalf("it ended: %v, %v, %d readings", first, running, begun.Load())
		}
		first.began = first.began.Add(-time.Hour)
		if done, running, _ := k.get(t.Context(), scope, read); done != first || running == nil {
			t.Fatalf("a later one under way: %v, %v", done, running)
		}
		_, running, _ = k.get(t.Context(), scope, read)
		goOn <- errors.New("the ledger is away")
		<-running.ended
		for range 3 { // what was added up stays, and no view begins anew at once
			if done, running, failed := k.get(t.Context(), scope, read); done != first || running != nil || failed == nil || failed.err == nil || begun.Load() != 2 {
				t.Errorf("the later one failed: %v, %v, %v, %d readings", done, running, failed, begun.Load())
			}
		}
		_, _, failed := k.get(t.Context(), scope, read)
		failed.began = failed.began.Add(-failedKept)
		if done, running, failed := k.get(t.Context(), scope, read); done != first || running == nil || failed != nil || begun.Load() != 3 {
			t.Errorf("a minute later: %v, %v, %v, %d readings", done, running, failed, begun.Load())
		}
		_, running, _ = k.get(t.Context(), scope, read)
		goOn <- nil
		<-running.ended
		if done, running, failed := k.get(t.Context(), scope, read); done == first || running != nil || failed != nil {
			t.Errorf("it ended well: %v, %v, %v", done, running, failed)
		}
	})
}

// Pages wait for a reading while it is new. Who asks later waits for nothing.
func TestNoPageWaitsForAReadingThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k sums
		goOn := make(chan struct{})
		for i, want := range []time.Duration{sumWait, 0, 0} {
			began := time.Now()
			if done, running, _ := k.get(t.Context(), sumScope{}, func(*added) { <-goOn }); done != nil || running == nil {
				t.Errorf("page %d: %v, %v", i+1, done, running)
			}
			if took := time.Since(began); took != want {
				t.Errorf("page %d waited %v, want %v", i+1, took, want)
			}
		}
		close(goOn)
	})
}

// A first reading that fails is not begun again by each view either.
func TestAFirstReadingThatFailsIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k sums
		begun := 0
		for range 3 {
			done, running, failed := k.get(t.Context(), sumScope{}, func(a *added) { begun++; a.err = errors.New("the ledger is away") })
			if done != nil || running != nil || failed == nil || begun != 1 {
				t.Errorf("%v, %v, %v, %d readings", done, running, failed, begun)
			}
		}
	})
}

// The readings that are kept are few, and the oldest goes first.
func TestFewReadingsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k sums
		for i := range sumsKept + 5 {
			k.get(t.Context(), sumScope{agent: string(rune('a' + i))}, func(a *added) { a.found = &cost.Found{} })
			time.Sleep(time.Millisecond) // of the test's clock
		}
		if _, ok := k.of[sumScope{agent: "a"}]; ok || len(k.of) != sumsKept {
			t.Errorf("%d are kept, the first one among them: %v", len(k.of), ok)
		}
	})
}

// A session that could not be added up is not tried again by each view: it has what it cost before, and the page says when.
func TestACostThatFailsIsKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k sessions
		s := &api.Session{ID: api.NewID(), Turns: 2}
		due := func() { // the time of it comes
			c := k.kept[s.ID]
			c.due = time.Now().Add(-time.Second)
			k.kept[s.ID] = c
		}
		k.store(s, "≈ $1.00", time.Now())
		due()
		s.Turns = 3
		if !k.isDue(s) {
			t.Fatal("a session that grew is not due")
		}
		k.fail(s)
		if again := k.failed(s); k.isDue(s) || k.money(s) != "≈ $1.00" || time.Until(again) < failedKept-time.Second || time.Until(again) > failedKept {
			t.Errorf("due %v, %s, again %v", k.isDue(s), k.money(s), again)
		}
		due()
		if !k.isDue(s) {
			t.Error("a minute later it is not tried again")
		}
		k.store(s, "≈ $2.00", time.Now())
		if again := k.failed(s); k.isDue(s) || !again.IsZero() || k.money(s) != "≈ $2.00" {
			t.Errorf("it was added up: due %v, %v, %s", k.isDue(s), again, k.money(s))
		}
	})
}
