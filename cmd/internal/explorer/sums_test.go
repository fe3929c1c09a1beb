package explorer

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"nexus/cmd/internal/cost"
)

// A page does not wait for a reading that takes long: it has how far that is, then its sums, and
// those sums while a later one goes on. Whoever asks meanwhile begins no other.
func TestAPageHasTheSumsOfBeforeWhileNewOnesAreAddedUp(t *testing.T) {
	var k sums
	scope, goOn := sumScope{tenant: "t"}, make(chan error)
	var begun atomic.Uint64
	read := func(a *added) {
		a.calls.Add(begun.Add(1))
		a.found = &cost.Found{}
		a.err = <-goOn
	}
	for range 2 {
		if done, running := k.get(t.Context(), scope, read); done != nil || running == nil || running.calls.Load() != 1 {
			t.Fatalf("a first reading under way: %v, %v", done, running)
		}
	}
	_, running := k.get(t.Context(), scope, read)
	goOn <- nil
	<-running.ended
	first, running := k.get(t.Context(), scope, read)
	if first == nil || first.err != nil || running != nil || begun.Load() != 1 {
		t.Fatalf("it ended: %v, %v, %d readings", first, running, begun.Load())
	}
	first.began = first.began.Add(-time.Hour)
	if done, running := k.get(t.Context(), scope, read); done != first || running == nil {
		t.Fatalf("a later one under way: %v, %v", done, running)
	}
	_, running = k.get(t.Context(), scope, read)
	goOn <- errors.New("the ledger is away")
	<-running.ended
	if done, _ := k.get(t.Context(), scope, read); done != first || begun.Load() != 3 { // what was added up stays
		t.Errorf("the later one failed: %v, %d readings", done, begun.Load())
	}
	goOn <- nil
}

// The readings that are kept are few, and the oldest goes first.
func TestFewReadingsAreKept(t *testing.T) {
	var k sums
	for i := range sumsKept + 5 {
		k.get(t.Context(), sumScope{agent: string(rune('a' + i))}, func(a *added) { a.found = &cost.Found{} })
	}
	if _, ok := k.of[sumScope{agent: "a"}]; ok || len(k.of) != sumsKept {
		t.Errorf("%d are kept, the first one among them: %v", len(k.of), ok)
	}
}
