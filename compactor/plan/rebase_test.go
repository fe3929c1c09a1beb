package plan_test

import (
	"errors"
	"fmt"
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

// What is shown for one call only ends when the user speaks, so such a plan is stale then;
// a tool result leaves it in force.
func TestPlanForOneCallIsStaleWhenTheUserSpoke(t *testing.T) {
	for userSpeaks, want := range map[bool]error{true: plan.ErrStale, false: nil} {
		w := compactortest.NewSession()
		w.Policy, w.Limits.ContextWindow = builtin("wolffish"), 16_000
		must(t, w.Turn(user("read them"), says("", "r0")))
		for i := range 30 {
			must(t, w.Turn([]turns.Message{tool(result(fmt.Sprint("r", i), words(400)))}, says("", fmt.Sprint("r", i+1))))
		}
		pl, err := plan.New(w.Path(), w.Policy, turns.Trigger{Kind: plan.TriggerThreshold}, plan.Options{})
		must(t, err)
		if !pl.Span.Call {
			t.Fatal("the plan is not for one call")
		}
		ms := []turns.Message{tool(result("r30", "ok"))}
		if userSpeaks {
			ms = append(ms, user("and now?")...)
		}
		must(t, w.Turn(ms, nil))
		if _, err := pl.Rebase(w.Path()); !errors.Is(err, want) {
			t.Errorf("the user spoke %v: %v, want %v", userSpeaks, err, want)
		}
	}
}
