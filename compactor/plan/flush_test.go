package plan_test

import (
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
)

// test_should_flush_fires_before_compact: at every size from the flush's
// threshold to the compaction's, the flush is due and the compaction is not.
func TestShouldFlushFiresBeforeCompact(t *testing.T) {
	p := builtin("spec-008")
	for _, c := range []struct {
		tokens         uint64
		flush, compact bool
	}{
		{0, false, false}, {176_000, false, false}, {176_001, true, false}, {180_000, true, false}, {180_001, true, true}, {250_000, true, true},
	} {
		l := view.Load{Tokens: c.tokens}
		if got := plan.FlushDue(view.Path{}, p, l); got != c.flush {
			t.Errorf("%d tokens: flush due %v, want %v", c.tokens, got, c.flush)
		}
		if _, got := plan.DueAt(view.Path{}, p, l); got != c.compact {
			t.Errorf("%d tokens: compaction due %v, want %v", c.tokens, got, c.compact)
		}
	}
	if !plan.FlushDue(view.Path{Overhead: 10_000}, p, view.Load{Tokens: 166_001}) {
		t.Error("overhead is part of the context that a flush is due in")
	}
	if plan.FlushDue(view.Path{Overhead: 190_000}, p, view.Load{Tokens: 10_000}) {
		t.Error("due though overhead leaves no room: there will be no compaction")
	}
	small := view.Path{Limits: turns.Limits{ContextWindow: 8_000}}
	trigger := plan.Threshold(small, p)
	if plan.FlushDue(small, p, view.Load{Tokens: trigger - 500}) || !plan.FlushDue(small, p, view.Load{Tokens: trigger - 499}) {
		t.Errorf("in a window of 8000, where a compaction is due over %d: want a flush in the last 500 before", trigger)
	}
	off, _ := policy.Builtin("balanced")
	if plan.FlushDue(view.Path{}, off, view.Load{Tokens: 190_000}) {
		t.Error("due under a policy without a flush")
	}
	p.Mode = policy.Manual
	if plan.FlushDue(view.Path{}, p, view.Load{Tokens: 190_000}) {
		t.Error("due under a policy that compacts only when asked")
	}
}
