package compactor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/render"

	"nexus/turns/render/strict"
)

// Messages that have no response yet are in the next context, at least by their ends,
// whatever the policy, the window, and their size.
func TestUnseenIsShown(t *testing.T) {
	for _, name := range policy.Names() {
		for _, window := range []uint64{8_000, 32_000, 128_000} {
			for _, results := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%d/%d", name, window, results), func(t *testing.T) {
					pol, _ := policy.Builtin(name)
					w := newWorld()
					w.Policy, w.Limits.ContextWindow = pol, window
					for i := range 12 {
						must(t, w.Turn(user(fmt.Sprint(i, words(int(window/60)))), says("fine")))
					}
					must(t, w.Turn(user("in which file was the failure?"), says("", "c0", "c1", "c2")))
					var parts []turns.Part
					for i := range 3 {
						n := 20
						if i < results {
							n = int(window) * 2
						}
						parts = append(parts, result(fmt.Sprint("c", i), fmt.Sprintf("begin%d %s end%d", i, words(n), i)))
					}
					must(t, w.Turn([]turns.Message{tool(parts...)}, nil))
					for range 2 {
						p := w.Path()
						cx, err := view.Render(p, p.Counter)
						must(t, err)
						trigger, due := plan.Due(p, pol, cx.Tokens)
						if !due {
							break
						}
						if _, err = w.compact(pol, trigger.Kind, plan.Options{}); err != nil && !errors.Is(err, plan.ErrNothing) {
							t.Fatal(err)
						}
					}
					p := w.Path()
					cx, err := view.Render(p, p.Counter)
					must(t, err)
					must(t, Fit(p, cx, pol.Budget(w.Limits)))
					all := ""
					for _, m := range cx.Messages {
						for i := range m.Parts {
							all += summary.PartText(&m.Parts[i])
						}
					}
					for i := range 3 {
						if !strings.Contains(all, fmt.Sprintf("begin%d ", i)) || !strings.Contains(all, fmt.Sprintf(" end%d", i)) {
							t.Errorf("result %d is not shown by its ends; the context has %d tokens of %d", i, cx.Tokens, pol.Budget(w.Limits))
						}
					}
					r, err := render.Anthropic(nil, nil, cx.Messages)
					must(t, err)
					b, err := turns.EncodeJSON(r.Messages)
					must(t, err)
					must(t, strict.Anthropic(r.System, b))
				})
			}
		}
	}
}

// A large message of the user that nobody has answered is not covered either.
func TestUnansweredQuestionIsShown(t *testing.T) {
	for _, name := range policy.Names() {
		pol, _ := policy.Builtin(name)
		w := newWorld()
		w.Policy, w.Limits.ContextWindow = pol, 16_000
		must(t, w.Turn(user("hello"), says("yes?")))
		must(t, w.Turn(user("What fails here? "+words(40_000)+" Thank you."), nil))
		p := w.Path()
		trigger, due := plan.Due(p, pol, p.Tokens())
		if !due {
			t.Fatalf("%s: not due", name)
		}
		_, err := w.compact(pol, trigger.Kind, plan.Options{})
		must(t, err)
		p = w.Path()
		cx, err := view.Render(p, p.Counter)
		must(t, err)
		must(t, Fit(p, cx, pol.Budget(w.Limits)))
		text := summary.TextOf(&cx.Messages[len(cx.Messages)-1])
		if !strings.HasPrefix(text, "What fails here?") || !strings.HasSuffix(text, "Thank you.") {
			t.Errorf("%s: the question is %.60q … of %d characters", name, text, len(text))
		}
	}
}

// What nobody has answered and is too much as a whole, many short messages or a
// conversation of another's, leaves a context that fits, with its end in it.
func TestUnseenOfAnyShapeFits(t *testing.T) {
	for name, unseen := range map[string]func(n int) []turns.Message{
		"many short messages": func(n int) (ms []turns.Message) {
			for i := range n / 40 {
				ms = append(ms, user(fmt.Sprint("note ", i, words(16)))...)
			}
			return append(ms, user("and the end")...)
		},
		"another's conversation": func(n int) []turns.Message {
			return []turns.Message{
				{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.Reasoning, Content: words(n)}, turns.TextPart("begin " + words(n)),
					{Type: turns.ToolCall, ID: "k", Name: "write", Arguments: turns.Raw(`{"text":"` + words(n) + `"}`)}}},
				tool(result("k", "written")),
				turns.TextMessage(turns.User, "and the end"),
			}
		},
	} {
		for _, named := range policy.Names() {
			for _, window := range []uint64{4_000, 32_000} {
				pol, _ := policy.Builtin(named)
				w := newWorld()
				w.Policy, w.Limits.ContextWindow = pol, window
				must(t, w.Turn(user("hello"), says("yes?")))
				must(t, w.Turn(unseen(int(window)), nil))
				for range 2 {
					p := w.Path()
					trigger, due := plan.Due(p, pol, p.Tokens())
					if !due {
						break
					}
					if _, err := w.compact(pol, trigger.Kind, plan.Options{}); err != nil && !errors.Is(err, plan.ErrNothing) {
						t.Fatalf("%s, %s in %d: %v", name, named, window, err)
					}
				}
				p := w.Path()
				cx, err := view.Render(p, p.Counter)
				must(t, err)
				if err := Fit(p, cx, pol.Budget(w.Limits)); err != nil {
					t.Fatalf("%s, %s in %d: %v", name, named, window, err)
				}
				if text := summary.TextOf(&cx.Messages[len(cx.Messages)-1]); !strings.HasSuffix(text, "and the end") {
					t.Errorf("%s, %s in %d: it ends with %.60q", name, named, window, text)
				}
				r, err := render.Anthropic(nil, nil, cx.Messages)
				must(t, err)
				b, err := turns.EncodeJSON(r.Messages)
				must(t, err)
				must(t, strict.Anthropic(r.System, b))
			}
		}
	}
}

// TestPinsStandWhole: pins have room of their own: forty rules of a page are shown
// word for word under every policy in a window of 32,000.
func TestPinsStandWhole(t *testing.T) {
	var rules []string
	for i := range 40 {
		rules = append(rules, fmt.Sprintf("Rule %d: never write to table number %d by hand.", i, i*7))
	}
	page := strings.Join(rules, "\n")
	for _, name := range policy.Names() {
		pol, _ := policy.Builtin(name)
		w := newWorld()
		w.Policy, w.Limits.ContextWindow = pol, 32_000
		must(t, w.Turn(user("begin"), says("yes")))
		must(t, w.Turn(user(page), says("understood")))
		w.Halves[2].Pinned = true
		for i, n := 0, 0; n < 4 && i < 1500; i++ {
			must(t, w.Turn(user(fmt.Sprint(i, words(200))), says(words(200))))
			p := w.Path()
			trigger, due := plan.Due(p, pol, p.Tokens())
			if !due {
				continue
			}
			_, err := w.compact(pol, trigger.Kind, plan.Options{})
			must(t, err)
			if r := w.Bodies[w.Head.Ref].Replacement; len(r) > 0 {
				if n++; !strings.Contains(summary.TextOf(&r[0]), page) {
					t.Errorf("%s, compaction %d: the rules are not there whole", name, n)
				}
			}
		}
	}
}
