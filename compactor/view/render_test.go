package view_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/compactortest"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

func TestElidedParts(t *testing.T) {
	w := compactortest.NewSession()
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

func TestElisionsWithoutTextsAreCorrupt(t *testing.T) {
	w := compactortest.NewSession()
	must(t, w.Turn(user("a"), says("", "c1", "c2")))
	must(t, w.Turn([]turns.Message{tool(result("c1", words(50)), result("c2", words(50)))}, says("x")))
	p := w.Path()
	h := p.Halves[2]
	p.InForce = &view.InForce{Span: turns.Span{Elisions: []turns.Elision{{Turn: h.Ref, Half: h.Half}, {Turn: h.Ref, Half: h.Half, Part: 1}}},
		Body: turns.CompactionBody{Elided: []turns.ElidedPart{{Method: "cleared", Show: "x"}}}}
	if _, err := view.Render(p, approx); !errors.Is(err, turns.ErrCorrupt) {
		t.Errorf("%v, want corrupt", err)
	}
}

// TestLateWhileOthersWait: a late result that comes while other calls wait
// follows their results, whichever message brings those.
func TestLateWhileOthersWait(t *testing.T) {
	w := compactortest.NewSession()
	must(t, w.Turn(user("go"), says("", "a")))
	must(t, w.Turn(user("never mind"), says("", "b", "c")))
	must(t, w.Turn([]turns.Message{tool(result("b", "1"), result("a", "late"))}, nil))
	cx, err := view.Render(w.Path(), approx)
	must(t, err)
	if err := checkPairs(cx.Messages); err != nil {
		t.Errorf("%v in\n%s", err, compactortest.Show(cx))
	}
	must(t, w.Turn([]turns.Message{{Role: turns.User, Parts: []turns.Part{result("c", "2"), turns.TextPart("and go on")}}}, says("ok")))
	cx, err = view.Render(w.Path(), approx)
	must(t, err)
	if err := checkPairs(cx.Messages); err != nil {
		t.Errorf("%v in\n%s", err, compactortest.Show(cx))
	}
	var texts []string
	for _, m := range cx.Messages[len(cx.Messages)-3:] {
		texts = append(texts, summary.TextOf(&m))
	}
	if !strings.HasPrefix(texts[0], "[Late:") || texts[1] != "and go on" || texts[2] != "ok" {
		t.Errorf("the late result is not between the results and what came after it: %q", texts)
	}
}
