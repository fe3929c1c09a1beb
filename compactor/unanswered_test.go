package compactor

import (
	"errors"
	"testing"

	"nexus/turns"
	"nexus/turns/interchange"
	"nexus/turns/interchange/strict"
)

// What nobody has answered yet is never covered, however large it is: without
// it there would be nothing to send.
func TestAnUnansweredQuestionStays(t *testing.T) {
	for _, name := range Names() {
		pol, _ := Builtin(name)
		w := newWorld()
		w.limits.ContextWindow = 16_000
		must(t, w.turn(user("hello"), says("hi")))
		must(t, w.turn(user("QUESTION "+words(14_000)), nil))
		if _, err := w.compact(pol, TriggerThreshold, Options{}); err != nil && !errors.Is(err, ErrNothing) {
			t.Fatal(err)
		}
		cx, err := Render(w.path(), approx)
		must(t, err)
		r, err := interchange.Anthropic(nil, nil, cx.Messages)
		must(t, err)
		b, err := turns.EncodeJSON(r.Messages)
		must(t, err)
		if err := strict.Anthropic(r.System, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where all is covered, results of tools included, what stands for it is still
// a context that a provider takes.
func TestAllCoveredIsStillAContext(t *testing.T) {
	for _, name := range Names() {
		pol, _ := Builtin(name)
		w := newWorld()
		w.limits.ContextWindow = 4000
		must(t, w.turn(user("look"), says("", "a")))
		must(t, w.turn([]turns.Message{tool(result("a", words(9000)))}, nil))
		if _, err := w.compact(pol, TriggerThreshold, Options{}); err != nil {
			t.Fatal(err)
		}
		cx, err := Render(w.path(), approx)
		must(t, err)
		r, err := interchange.Anthropic(nil, nil, cx.Messages)
		must(t, err)
		b, err := turns.EncodeJSON(r.Messages)
		must(t, err)
		if err := strict.Anthropic(r.System, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestElisionsWithoutTextsAreCorrupt(t *testing.T) {
	w := newWorld()
	must(t, w.turn(user("a"), says("", "c1", "c2")))
	must(t, w.turn([]turns.Message{tool(result("c1", words(50)), result("c2", words(50)))}, says("x")))
	p := w.path()
	h := p.Halves[2]
	p.InForce = &InForce{Span: turns.Span{Elisions: []turns.Elision{{Turn: h.Ref, Half: h.Half}, {Turn: h.Ref, Half: h.Half, Part: 1}}},
		Body: turns.CompactionBody{Elided: []turns.ElidedPart{{Method: "cleared", Show: "x"}}}}
	if _, err := Render(p, approx); !errors.Is(err, turns.ErrCorrupt) {
		t.Errorf("%v, want corrupt", err)
	}
}
