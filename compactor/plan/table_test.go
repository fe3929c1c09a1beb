package plan_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

var writeTable = flag.Bool("write", false, "TestPlanTable writes testdata/plans.txt")

// histories returns the sessions of the table, in windows of 16,000 tokens.
func histories(t *testing.T, pol policy.Policy) (names []string, sessions []*compactortest.Session) {
	add := func(name string, build func(w *compactortest.Session)) {
		w := compactortest.NewSession()
		w.Policy, w.Limits.ContextWindow, w.Overhead = pol, 16_000, 500
		build(w)
		names, sessions = append(names, name), append(sessions, w)
	}
	loop := func(w *compactortest.Session, n, size int) {
		must(t, w.Turn(user("read them"), says("", "r0")))
		for i := range n {
			must(t, w.Turn([]turns.Message{tool(result(fmt.Sprint("r", i), fmt.Sprint("page ", i, words(size))))}, says(words(20), fmt.Sprint("r", i+1))))
		}
	}
	add("short talk", func(w *compactortest.Session) { w.Talk(t, "some", 3, 50) })
	add("long talk", func(w *compactortest.Session) { w.Talk(t, "some", 40, 150) })
	add("pinned talk", func(w *compactortest.Session) {
		w.Talk(t, "rule", 30, 200)
		w.Halves[2].Pinned, w.Halves[8].Pinned = true, true
	})
	add("tool loop", func(w *compactortest.Session) { loop(w, 30, 400) })
	add("one large result", func(w *compactortest.Session) {
		w.Talk(t, "some", 12, 100)
		must(t, w.Turn(user("look"), says("", "l")))
		must(t, w.Turn([]turns.Message{tool(result("l", words(20_000)))}, nil))
	})
	add("large old results", func(w *compactortest.Session) {
		loop(w, 5, 2_000)
		must(t, w.Turn([]turns.Message{tool(result("r5", "ok"))}, says("done")))
		w.Talk(t, "some", 8, 60)
	})
	add("unanswered question", func(w *compactortest.Session) {
		w.Talk(t, "some", 5, 100)
		must(t, w.Turn(user("What is this? "+words(14_000)+" Thank you."), nil))
	})
	add("open call", func(w *compactortest.Session) {
		w.Talk(t, "some", 5, 100)
		must(t, w.Turn(user("go"), says(words(12_000), "o")))
	})
	add("many unseen messages", func(w *compactortest.Session) {
		w.Talk(t, "some", 5, 100)
		var ms []turns.Message
		for i := range 700 {
			ms = append(ms, user(fmt.Sprint("note ", i, words(20)))...)
		}
		must(t, w.Turn(ms, nil))
	})
	add("a large result in a loop", func(w *compactortest.Session) {
		loop(w, 8, 100)
		must(t, w.Turn([]turns.Message{tool(result("r8", words(4_000)))}, says("", "s0")))
		must(t, w.Turn([]turns.Message{tool(result("s0", words(10)))}, says("", "s1")))
		must(t, w.Turn([]turns.Message{tool(result("s1", words(10)))}, says("noted")))
	})
	return names, sessions
}

// pruning is balanced with results that are shortened where that pays.
func pruning() policy.Policy {
	pol := builtin("balanced")
	pol.Name, pol.Cost.Patience, pol.Elide = "pruning", 2, builtin("autobyteus").Elide
	pol.Elide.Tools, pol.Elide.ProtectRecent, pol.Elide.MinChars = true, 2, 1000
	return pol
}

// describe is one line of the table.
func describe(pl *plan.Plan, err error) string {
	var b *plan.BudgetError
	switch {
	case errors.As(err, &b):
		return fmt.Sprintf("%v: %+v", err, *b)
	case err != nil:
		return err.Error()
	}
	return fmt.Sprintf("%s %d|%d split %v; tokens %d, kept %d, summary %d of %d, target %d, after %d; shortens %d, targets %d, reads %d, pins %d, first %d; pays %v",
		[]string{"cover", "shorten", "nudge"}[pl.Kind], len(pl.Covered), len(pl.Kept), pl.Span.Split, pl.TokensBefore, pl.TokensKept, pl.SummaryTokens, pl.ReplacementBound(),
		pl.TargetTokens, pl.TokensAfter(), len(pl.Shortens), pl.Targets(), len(pl.Reads), len(pl.Pins), len(pl.First), pl.Expects.Pays)
}

// commit makes pl the head, with a summary as long as the plan allows.
func commit(t *testing.T, w *compactortest.Session, pl *plan.Plan) {
	t.Helper()
	frame := pl.Frame(summary.Output{Text: (approx).Clip(strings.Repeat("fact ", 20_000), pl.Policy.InApprox(pl.SummaryTokens))})
	body := turns.CompactionBody{Elided: pl.Elided, TokensBefore: pl.TokensBefore, TokensAfter: pl.TokensAfter(), Plan: pl.Digest, Trigger: pl.Trigger}
	switch f := pl.Path.InForce; {
	case pl.Kind == plan.Cover:
		body.Replacement, body.Summary = []turns.Message{frame}, summary.TextOf(&frame)
	case f != nil:
		body.Replacement, body.Summary = f.Body.Replacement, f.Body.Summary
	}
	if pl.Kind == plan.Nudge {
		body.Nudge, body.Summary = []turns.Message{frame}, summary.TextOf(&frame)
	}
	must(t, w.Commit(pl.Span, body))
}

// testdata/plans.txt says what each built-in policy plans for each history and trigger,
// and again after the plan was committed and the session went on. Read its diff when it
// changes; go test ./compactor/plan -run TestPlanTable -write makes it anew.
func TestPlanTable(t *testing.T) {
	var out strings.Builder
	for _, name := range append(policy.Names(), "pruning") {
		pol := pruning()
		if name != pol.Name {
			pol = builtin(name)
		}
		for i := range 10 {
			last := "" // what the last trigger gave
			for _, kind := range []string{plan.TriggerThreshold, plan.TriggerManual, plan.TriggerOverflow, plan.TriggerLargeOutput} {
				names, sessions := histories(t, pol)
				w := sessions[i]
				var block strings.Builder
				for round := range 2 {
					p := w.Path()
					trigger, due := plan.Due(p, pol, p.Tokens())
					idle := p.MeasureLoad(p.Tokens())
					idle.Idle = time.Hour
					_, dueIdle := plan.DueAt(p, pol, idle)
					pl, err := plan.New(p, pol, turns.Trigger{Kind: kind}, plan.Options{Focus: "the parser"})
					fmt.Fprintf(&block, "  due %v, idle %v %s %s\n  %s\n", due, dueIdle, trigger.Kind, trigger.Detail, describe(pl, err))
					if err != nil {
						break
					}
					notice := pl.Notice()
					fmt.Fprintf(&block, "  notice of %d bytes: %.20q\n", len(notice), notice)
					if round == 1 {
						break
					}
					must(t, checkPlan(p, pl))
					commit(t, w, pl)
					if kind == plan.TriggerManual {
						_, err := plan.New(w.Path(), pol, turns.Trigger{Kind: kind}, plan.Options{Focus: "the parser"})
						if !errors.Is(err, plan.ErrNothing) {
							t.Errorf("%s, %s: the same plan again: %v", name, names[i], err)
						}
					}
					if newest := w.Halves[len(w.Halves)-1]; newest.Half == turns.MessagesHalf {
						must(t, w.Turn(nil, says("I see.")))
					} else if calls := newest.Messages[0].Calls(nil); len(calls) > 0 {
						must(t, w.Turn([]turns.Message{tool(result(calls[0], words(100)))}, says("I see.")))
					}
					w.Talk(t, "more", 20, 120)
				}
				fmt.Fprintf(&out, "%s, %s, %s\n", name, names[i], kind)
				if block.String() == last {
					out.WriteString("  the same\n")
				} else {
					out.WriteString(block.String())
				}
				last = block.String()
			}
		}
	}
	const file = "testdata/plans.txt"
	if *writeTable {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(file, []byte(out.String()), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); d != "" {
		t.Errorf("(-file +now):\n%s", d)
	}
}

// checkPlan checks the invariant of [plan.Plan].
func checkPlan(p view.Path, pl *plan.Plan) error {
	if n := len(pl.Covered) + len(pl.Kept); n != len(p.Halves) {
		return fmt.Errorf("%d halves of %d are covered or kept", n, len(p.Halves))
	}
	if !plan.LegalCuts(p.Halves)[len(pl.Covered)] && len(pl.Covered) > 0 {
		return errors.New("a call is open across the cut")
	}
	return nil
}
