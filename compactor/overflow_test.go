package compactor

import (
	"context"
	"strings"
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

// An overflow that says neither window nor count aims at half of what a
// threshold aims at. A budget that was made from what it says stands for that.
func TestAnOverflowAimsAtHalf(t *testing.T) {
	for _, name := range policy.Names() {
		w := newWorld()
		w.Policy, w.Limits.ContextWindow = builtin(name), 200_000
		w.talk(t, "some", 185, 500)
		target := func(kind string, budget uint64) uint64 {
			pl, err := plan.New(w.Path(), w.Policy, turns.Trigger{Kind: kind}, plan.Options{Budget: budget})
			must(t, err)
			return pl.TargetTokens
		}
		bound := target(plan.TriggerManual, 0)
		if got := target(plan.TriggerOverflow, 0); got != bound/2 || got == 0 {
			t.Errorf("%s: %d tokens, want half of %d", name, got, bound)
		}
		if got := target(plan.TriggerOverflow, w.Policy.Budget(w.Limits)); got != bound {
			t.Errorf("%s: with a budget %d tokens, want %d", name, got, bound)
		}
	}
}

// What was shortened for one call stands whole again when the user speaks, but
// not after an overflow: the provider refused it.
func TestWhatAProviderRefusedIsNotSentAgain(t *testing.T) {
	for kind, call := range map[string]bool{plan.TriggerThreshold: true, plan.TriggerManual: true, plan.TriggerOverflow: false} {
		w := wolffishWorld(t, 100_000)
		must(t, w.Turn(user("read them all"), nil))
		for range 10 {
			w.read(t, lines("page", 9_000))
		}
		before := w.context(t).Tokens
		pl, r := w.pass(t, kind, &scribe{text: "TASK: read"})
		shortened := w.context(t).Tokens
		if pl.Span.Call != call || r.Span.Call != call || len(pl.Shortens) == 0 || shortened >= before {
			t.Fatalf("%s: for one call %v, want %v; %d tokens of %d", kind, pl.Span.Call, call, shortened, before)
		}
		must(t, w.Turn(user("and now?"), nil))
		now := w.context(t).Tokens
		if whole := now > before; whole != call {
			t.Errorf("%s: %d tokens after the user spoke; there were %d, then %d", kind, now, before, shortened)
		}
	}
}

// Where a provider counts what no compaction takes away, each call would be due:
// after one that did not help, a fifth of the room has to come in before the next.
func TestNoCompactionACallByAProvidersCount(t *testing.T) {
	const room, after, over = 100_000, 20_000, 99_000
	for _, name := range []string{"gsv", "wolffish", "autobyteus"} {
		pol := builtin(name)
		limits := turns.Limits{ContextWindow: 110_000, MaxOutputTokens: 9_000, SafetyMargin: 1_000}
		if pol.Budget(limits) != room || pol.Measure == policy.Estimate {
			t.Fatalf("%s: a budget of %d, by %v", name, pol.Budget(limits), pol.Measure)
		}
		in := &view.InForce{Body: turns.CompactionBody{TokensAfter: after}}
		for _, tc := range []struct {
			what             string
			in               *view.InForce
			tokens, reported uint64
			due              bool
		}{
			{"none was made yet", nil, after, 2 * over, true},
			{"just made", in, after, 2 * over, false},
			{"almost a fifth more", in, after + room/5 - 1, 2 * over, false},
			{"a fifth more", in, after + room/5, 2 * over, true},
			{"it counts less than is due", in, after, over / 4, false},
			{"it is due by our own count", &view.InForce{Body: turns.CompactionBody{TokensAfter: 2 * over}}, 2 * over, 3 * over, true},
		} {
			p := view.Path{Limits: limits, InForce: tc.in}
			if _, due := plan.DueAt(p, pol, view.Load{Tokens: tc.tokens, Reported: tc.reported}); due != tc.due {
				t.Errorf("%s, %s: due %v, want %v", name, tc.what, due, tc.due)
			}
		}
	}
}

// A model is paid by the token: it is asked for no more than 12,000, an extract
// for all that the policy gives it.
func TestAModelIsAskedForNoMoreThanIsRead(t *testing.T) {
	pol, err := builtin("nexus").With(turns.Raw(`{"summary_max_tokens":60000,"summary_max_ratio":0.4,"target_ratio":0.9,"target_tokens":0}`))
	must(t, err)
	for _, tc := range []struct {
		talk  int // turns of about a thousand tokens
		local bool
		want  uint64 // 0: what the plan allows
	}{{300, false, 12_000}, {300, true, 0}, {25, false, 0}} {
		w := newWorld()
		w.Policy, w.Limits.ContextWindow = pol, 400_000
		if tc.talk < 100 {
			w.Limits.ContextWindow = 32_000
		}
		w.talk(t, "some", tc.talk, 500)
		pl, err := plan.New(w.Path(), pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
		must(t, err)
		var asked uint64
		tier := Tier{Name: "model", Local: tc.local, Summarizer: summarizerFunc(func(_ context.Context, in summary.Input) (summary.Output, error) {
			asked = in.MaxTokens
			return summary.Output{Text: strings.Repeat("word ", 100)}, nil
		})}
		_, err = Run(t.Context(), pl, []Tier{tier}, pl.Path.Counter, nil)
		must(t, err)
		want := tc.want
		if want == 0 {
			want = pl.SummaryTokens
		}
		if (tc.talk > 100) != (pl.SummaryTokens > 20_000) || asked != want {
			t.Errorf("local %v: asked for %d tokens, want %d; the plan allows %d", tc.local, asked, want, pl.SummaryTokens)
		}
	}
}
