package compactor

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/plan"
	"nexus/compactor/view"
	"nexus/turns"
)

// TestRecord: an import's cleared result is shown cleared, the compaction before
// stays in force, and the next compaction carries what is still kept.
func TestRecord(t *testing.T) {
	w := newWorld()
	w.Limits.ContextWindow = 4000
	for _, id := range []string{"a", "b", "c"} {
		must(t, w.Turn(user(words(150)), says("", id)))
		must(t, w.Turn([]turns.Message{tool(result(id, words(200)))}, says("read "+id)))
	}
	halves := w.Halves
	r, err := Record(w.Path(), Recorded{Summary: "a was read", FirstKept: halves[4].Ref}, approx)
	must(t, err)
	must(t, w.compaction(r))
	first := w.Head.Ref

	r, err = Record(w.Path(), Recorded{Cleared: []ClearedCall{{halves[6].Ref, "b"}, {halves[10].Ref, "c"}}}, approx)
	must(t, err)
	must(t, w.compaction(r))
	if w.Head.Cut != w.Node(first).Cut || r.Body.Summary != "a was read" || r.Span.Provenance != turns.Imported {
		t.Errorf("cut %d, %+v", w.Head.Cut, r.Body)
	}
	cx, err := view.Render(w.Path(), approx)
	must(t, err)
	must(t, checkPairs(cx.Messages))
	want := []view.Status{view.InSummary, view.Verbatim, view.Verbatim, view.Cleared, view.Verbatim, view.Verbatim, view.Verbatim, view.Cleared, view.Verbatim}
	var got []view.Status
	for _, s := range cx.Sources {
		got = append(got, s.Status)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if got, _ := cx.Messages[3].Parts[0].Response.Text(); got != clearedShow {
		t.Errorf("shown for a cleared result: %q", got)
	}
	if got, _ := halves[6].Messages[0].Parts[0].Response.Text(); got == clearedShow {
		t.Error("the original was changed")
	}
	if p := w.Path(); p.Tokens() >= p.Replaced()+8*100+600 {
		t.Errorf("%d tokens: the elisions save nothing", p.Tokens())
	}

	pol, err := builtin("nexus").With(turns.Raw(`{"keep_tokens":190}`))
	must(t, err)
	pl, err := w.compact(pol, plan.TriggerManual, plan.Options{})
	must(t, err)
	if len(pl.Elided) != 1 || len(pl.Span.Elisions) != 1 || pl.Span.Elisions[0].Turn != halves[10].Ref {
		t.Errorf("carried over: %+v", pl.Span.Elisions)
	}
	if pl.Previous != "a was read" {
		t.Errorf("previous summary %q", pl.Previous)
	}
	_, err = Record(w.Path(), Recorded{FirstKept: turns.Ref{Session: testID(9), Turn: testID(9)}}, approx)
	if err != nil && !errors.Is(err, plan.ErrNothing) {
		t.Errorf("first kept before the cut in force: %v", err)
	}
}
