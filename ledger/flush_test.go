package ledger

import (
	"errors"
	"testing"

	"nexus/turns"
)

// A flush is begun at most twice in a cycle and ended at most once; the fold
// knows those of the last cycles, whichever the head is in.
func TestFlushIsBegunTwiceAtMostAndEndedOnce(t *testing.T) {
	id := turns.ID{15: 1}
	s := new(Session)
	put := func(e *turns.Event) error {
		e.Chain, e.ID = turns.SessionChain(id), turns.ID{14: 1, 15: byte(s.Tail.Seq)}
		if e.Kind != turns.KindOpened {
			e.Index, e.Prev = s.Tail.Index+1, s.Tail.Hash
		}
		return s.Apply("default", s.Tail.Seq+1, turns.Hash{byte(s.Tail.Seq)}, e)
	}
	after := func(cycle uint64) turns.Ref {
		if cycle == 1 {
			return turns.Ref{}
		}
		return turns.Ref{Session: id, Turn: turns.ID{13: 1, 15: byte(cycle)}}
	}
	flush := func(state turns.FlushState, cycle, try uint64) error {
		f := &turns.Flush{State: state, Cycle: cycle, After: after(cycle), Try: try}
		return put(&turns.Event{Kind: turns.KindFlush, Flush: f, Usage: &turns.Usage{InputTokens: 1}})
	}
	if err := put(&turns.Event{Kind: turns.KindOpened, Root: id, Agent: "main", Origin: &turns.Origin{}}); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		state      turns.FlushState
		cycle, try uint64
		ok         bool
	}{
		{turns.FlushDone, 1, 1, false}, // of none
		{turns.FlushBegun, 1, 2, false},
		{turns.FlushBegun, 1, 1, true},
		{turns.FlushBegun, 1, 1, false},
		{turns.FlushDone, 1, 2, false}, // of a try that was not
		{turns.FlushDone, 2, 1, false},
		{turns.FlushBegun, 1, 2, true},
		{turns.FlushBegun, 2, 1, true}, // the head is in another cycle now
		{turns.FlushSilent, 1, 2, true},
		{turns.FlushSilent, 1, 2, false},
		{turns.FlushBegun, 1, 2, false}, // ended
		{turns.FlushFailed, 2, 1, true},
		{turns.FlushBegun, 2, 2, false},
	} {
		before := *s
		err := flush(tc.state, tc.cycle, tc.try)
		if (err == nil) != tc.ok || (err != nil && !errors.Is(err, ErrCorrupt)) {
			t.Errorf("%d: %s, cycle %d, try %d: %v", i, tc.state, tc.cycle, tc.try, err)
		}
		if err != nil && *s != before {
			t.Errorf("%d changed the fold", i)
		}
	}
	if got := s.FlushOf(1, after(1)); got.State != turns.FlushSilent || s.FlushOf(2, after(2)).State != turns.FlushFailed {
		t.Errorf("cycle 1 is %s, cycle 2 %s", got.State, s.FlushOf(2, after(2)).State)
	}
	if got := s.FlushOf(2, turns.Ref{Session: id, Turn: id}); got != (turns.Flush{}) {
		t.Errorf("a cycle of the same number on another branch: %+v, want none", got)
	}
	if s.Usage.InputTokens != 5 || s.Turns != 0 {
		t.Errorf("%d input tokens in %d turns, want 5 in none", s.Usage.InputTokens, s.Turns)
	}
	for cycle := uint64(3); cycle < 3+keptFlushes; cycle++ {
		if err := flush(turns.FlushBegun, cycle, 1); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.FlushOf(2, after(2)); got.State != 0 || s.FlushOf(3, after(3)).State != turns.FlushBegun {
		t.Errorf("cycle 2 is %s, cycle 3 %s: want the last %d kept", got.State, s.FlushOf(3, after(3)).State, keptFlushes)
	}
}
