package compactor

import (
	"testing"

	"nexus/compactor/plan"
	"nexus/turns"
)

// TestSawThroughStays: a summary that was made from turns after its cut goes
// into the next one, so SawThrough of the next one names them too (invariant 7).
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
