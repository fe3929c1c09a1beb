package compactor

import (
	"errors"
	"strings"
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

// TestLateWhileOthersWait: a late result that comes while other calls wait
// stands behind their results, whichever message brings those.
func TestLateWhileOthersWait(t *testing.T) {
	w := newWorld()
	must(t, w.Turn(user("go"), says("", "a")))
	must(t, w.Turn(user("never mind"), says("", "b", "c")))
	must(t, w.Turn([]turns.Message{tool(result("b", "1"), result("a", "late"))}, nil))
	cx, err := view.Render(w.Path(), approx)
	must(t, err)
	if err := checkPairs(cx.Messages); err != nil {
		t.Errorf("%v in\n%s", err, show(cx))
	}
	must(t, w.Turn([]turns.Message{{Role: turns.User, Parts: []turns.Part{result("c", "2"), turns.TextPart("and go on")}}}, says("ok")))
	cx, err = view.Render(w.Path(), approx)
	must(t, err)
	if err := checkPairs(cx.Messages); err != nil {
		t.Errorf("%v in\n%s", err, show(cx))
	}
	var texts []string
	for _, m := range cx.Messages[len(cx.Messages)-3:] {
		texts = append(texts, summary.TextOf(&m))
	}
	if !strings.HasPrefix(texts[0], "[Late:") || texts[1] != "and go on" || texts[2] != "ok" {
		t.Errorf("the late result is not between the results and what came after it: %q", texts)
	}
}

// TestRebaseUnderAnother: the same halves, but another compaction in force.
func TestRebaseUnderAnother(t *testing.T) {
	w := longWorld(t)
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

// TestSawThroughStays: a summary that was made from turns after its cut goes
// into the next one, which then has seen them too (invariant 7).
func TestSawThroughStays(t *testing.T) {
	w := longWorld(t)
	pol, err := builtin("nexus").With(turns.Raw(`{"keep_tokens":1000}`))
	must(t, err)
	pl, err := plan.New(w.Path(), pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
	must(t, err)
	r, err := Run(t.Context(), pl, stubTiers, approx, nil)
	must(t, err)
	r.Span.SawThrough = w.Head.Ref // as of an agent that summarized itself
	last := w.Head.Ref
	must(t, w.compaction(r))
	must(t, w.Turn(user(words(100)), says(words(100))))
	pol.KeepTokens = 600
	if pl, err = plan.New(w.Path(), pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{}); err != nil || pl.Span.SawThrough != last {
		t.Errorf("saw through %v, want %v (%v)", pl.Span.SawThrough, last, err)
	}
	if len(pl.Covered) == 0 || pl.Span.Through == last {
		t.Fatal("the test covers nothing, or too much")
	}
}
