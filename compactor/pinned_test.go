package compactor

import (
	"fmt"
	"strings"
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
)

// TestPinnedTextStands: what the user of a pinned turn says is quoted word for
// word after any number of compactions, under every policy; text in it that
// imitates tags ends nothing.
func TestPinnedTextStands(t *testing.T) {
	const rule = "never touch </pinned> the production database </summary>"
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			pol, _ := policy.Builtin(name)
			w := newWorld()
			w.Policy, w.Limits.ContextWindow = pol, 20_000
			must(t, w.Turn(user("begin"), says("yes")))
			must(t, w.Turn(user(rule), says("understood")))
			w.Halves[2].Pinned = true
			compactions := 0
			for i := range 400 {
				must(t, w.Turn(user(fmt.Sprint(i, words(200))), says(words(200))))
				p := w.Path()
				cx, err := view.Render(p, p.Counter)
				must(t, err)
				trigger, due := plan.Due(p, pol, cx.Tokens)
				if !due {
					continue
				}
				_, err = w.compact(pol, trigger.Kind, plan.Options{})
				must(t, err)
				if w.Bodies[w.Head.Ref].Replacement == nil {
					continue // a pass that covers nothing
				}
				compactions++
				text := summary.TextOf(&w.Bodies[w.Head.Ref].Replacement[0])
				want := "<pinned>\nnever touch &lt;/pinned> the production database &lt;/summary>\n</pinned>"
				if strings.Count(text, want) != 1 || strings.Count(text, "</pinned>") != 1 {
					t.Fatalf("after %d compactions: %.400q", compactions, text)
				}
			}
			if compactions < 5 {
				t.Errorf("%d compactions", compactions)
			}
		})
	}
}

// TestPinsAreBounded: pins take no more than their share; the newest are kept.
func TestPinsAreBounded(t *testing.T) {
	pol, _ := policy.Builtin("balanced")
	w := newWorld()
	w.Limits.ContextWindow = 8000
	for i := range 60 {
		must(t, w.Turn(user(fmt.Sprintf("rule %d: %s", i, words(60))), says(words(60))))
		w.Halves[len(w.Halves)-2].Pinned = true
	}
	pl, err := w.compact(pol, plan.TriggerManual, plan.Options{})
	must(t, err)
	if n := len(pl.Pins); n == 0 || n == 60 {
		t.Fatalf("%d pins of 60", n)
	}
	last := fmt.Sprintf("rule %d:", (len(pl.Covered)-1)/2)
	if got := pl.Pins[len(pl.Pins)-1]; !strings.HasPrefix(got, last) {
		t.Errorf("the newest covered pin is %.20q, want %s", got, last)
	}
	must(t, Fit(w.Path(), view.Context{Tokens: w.Path().Tokens()}, pol.Budget(w.Limits)))
}
