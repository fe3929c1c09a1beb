package compactor

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

// TestRecord: an import's cleared result is shown cleared, what stood before
// stands on, and the next compaction carries what is still kept.
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

func TestElidedParts(t *testing.T) {
	w := newWorld()
	response := says("text", "a")
	response.Parts = append(response.Parts, turns.Part{Type: turns.Reasoning, Content: "long", Ext: turns.Raw(`{}`)})
	must(t, w.Turn(user("go"), response))
	p := w.Path()
	ref := p.Halves[1].Ref
	f := &view.InForce{}
	for part, show := range []string{"te…", "long arguments", ""} {
		f.Span.Elisions = append(f.Span.Elisions, turns.Elision{Turn: ref, Half: turns.ResponseHalf, Part: uint64(part)})
		f.Body.Elided = append(f.Body.Elided, turns.ElidedPart{Method: "trimmed", Show: show})
	}
	p.InForce = f
	cx, err := view.Render(p, approx)
	must(t, err)
	want := []turns.Part{turns.TextPart("te…"), {Type: turns.ToolCall, ID: "a", Name: "run", Arguments: turns.Raw(`{"elided":"long arguments"}`)}}
	if diff := cmp.Diff(want, cx.Messages[1].Parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if cx.Sources[1].Status != view.Trimmed {
		t.Errorf("status %s", cx.Sources[1].Status)
	}
	f.Span.Elisions[0].Part = 7
	if _, err := view.Render(p, approx); !errors.Is(err, turns.ErrCorrupt) {
		t.Errorf("an elision of a part that is not there: %v", err)
	}
	p.InForce = nil
	p.Halves = append([]summary.HalfTurn(nil), p.Halves...)
	p.Halves[0].Erased, p.Halves[0].Messages = true, nil
	cx, err = view.Render(p, approx)
	must(t, err)
	if cx.Sources[0].Status != view.Erased || cx.Messages[0].Role != turns.Assistant {
		t.Errorf("erased: %+v", cx.Sources[0])
	}
}

// TestRecipe: a recipe reads back as it was written, and names its renderer.
func TestRecipe(t *testing.T) {
	w := longWorld(t)
	pol, _ := policy.Builtin("balanced")
	_, err := w.compact(pol, plan.TriggerManual, plan.Options{})
	must(t, err)
	want := view.NewRecipe(w.Path(), pol, 3000)
	want.Settings = w.ID
	raw, err := want.JSON()
	must(t, err)
	got, err := view.ParseRecipe(raw)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Compaction.Ref() != w.Head.Ref || got.Renderer != "render-1" || got.Counter != "approx-1" {
		t.Errorf("%s", raw)
	}
	if _, err := view.ParseRecipe(turns.Raw(`{"renderer":"render-0"}`)); !errors.Is(err, turns.ErrUnsupported) {
		t.Errorf("another renderer: %v", err)
	}
	if _, err := view.ParseRecipe(turns.Raw(`{"renderer":"render-1"}`)); !errors.Is(err, turns.ErrUnsupported) {
		t.Errorf("without settings: %v", err)
	}
	// Golden: the encoding under a fingerprint is part of the contract.
	c := view.Context{Messages: []turns.Message{turns.TextMessage(turns.User, "hello"), *says("hi", "a")}}
	if got, want := c.Fingerprint(), "sha256:54224423f86817ec66104b024dcfcbcbe61ea7adce6743998f3d36ea4b8498d9"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
}
