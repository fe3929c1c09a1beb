package plan_test

import (
	"errors"
	"testing"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/view"
	"nexus/turns"
)

// TestRebaseUnderAnother: the same halves, but another compaction in force.
func TestRebaseUnderAnother(t *testing.T) {
	w := compactortest.NewLongSession(t)
	pol, err := builtin("nexus").With(turns.Raw(`{"keep_tokens":450}`))
	must(t, err)
	pl, err := plan.New(w.Path(), pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
	must(t, err)
	now := w.Path()
	_, err = pl.Rebase(now)
	must(t, err)
	now.InForce = &view.InForce{}
	now.InForce.Node.Ref = turns.Ref{Session: testID(5), Turn: testID(6)}
	if _, err := pl.Rebase(now); !errors.Is(err, plan.ErrStale) {
		t.Errorf("%v, want %v", err, plan.ErrStale)
	}
}
