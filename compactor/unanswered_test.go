package compactor

import (
	"errors"
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/render"

	"nexus/turns/render/strict"
)

// What nobody has answered yet is never covered, however large it is: without
// it there would be nothing to send.
func TestAnUnansweredQuestionStays(t *testing.T) {
	for _, name := range policy.Names() {
		pol, _ := policy.Builtin(name)
		w := newWorld()
		w.Limits.ContextWindow = 16_000
		must(t, w.Turn(user("hello"), says("hi")))
		must(t, w.Turn(user("QUESTION "+words(14_000)), nil))
		if _, err := w.compact(pol, plan.TriggerThreshold, plan.Options{}); err != nil && !errors.Is(err, plan.ErrNothing) {
			t.Fatal(err)
		}
		cx, err := view.Render(w.Path(), approx)
		must(t, err)
		r, err := render.Anthropic(nil, nil, cx.Messages)
		must(t, err)
		b, err := turns.EncodeJSON(r.Messages)
		must(t, err)
		if err := strict.Anthropic(r.System, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If all is covered, results of tools included, the replacement is still
// a context that a provider takes.
func TestAllCoveredIsStillAContext(t *testing.T) {
	for _, name := range policy.Names() {
		pol, _ := policy.Builtin(name)
		w := newWorld()
		w.Limits.ContextWindow = 4000
		must(t, w.Turn(user("look"), says("", "a")))
		must(t, w.Turn([]turns.Message{tool(result("a", words(9000)))}, nil))
		if _, err := w.compact(pol, plan.TriggerThreshold, plan.Options{}); err != nil {
			t.Fatal(err)
		}
		cx, err := view.Render(w.Path(), approx)
		must(t, err)
		r, err := render.Anthropic(nil, nil, cx.Messages)
		must(t, err)
		b, err := turns.EncodeJSON(r.Messages)
		must(t, err)
		if err := strict.Anthropic(r.System, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If a call that waits takes most of the budget, the summary next to it takes
// the rest, though it could be longer elsewhere.
func TestSummaryFillsRoomNextToCall(t *testing.T) {
	for _, name := range policy.Names() {
		w := newWorld()
		w.Policy, w.Limits.ContextWindow = builtin(name), 40_000
		budget := w.Policy.Budget(w.Limits)
		for range 40 {
			must(t, w.Turn(user(words(300)), says(words(300))))
		}
		_, err := w.compact(w.Policy, plan.TriggerManual, plan.Options{Cover: true})
		must(t, err)
		long := *says("", "c")
		for n := 100; ; n += 100 {
			long.Parts = []turns.Part{turns.TextPart(words(n)), long.Parts[len(long.Parts)-1]}
			if w.Policy.CounterOf().Message(&long) > budget-900 {
				break
			}
		}
		must(t, w.Turn(user("go on"), &long))
		_, err = w.compact(w.Policy, plan.TriggerThreshold, plan.Options{})
		must(t, err)
		cx, err := view.Render(w.Path(), w.Path().Counter)
		must(t, err)
		if err := Fit(w.Path(), cx, budget); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
