package compactor

import (
	"context"
	"strings"
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/summary"
	"nexus/turns"
)

// WOL-16: a part that was shortened is whole again when the user speaks, whatever the pass was for: the
// stored conversation is, and the next call starts from it.
func TestShortenedPartsAreWholeAgainWhenTheUserSpeaks(t *testing.T) {
	for _, kind := range []string{plan.TriggerThreshold, plan.TriggerManual, plan.TriggerOverflow} {
		w := wolffishWorld(t, 100_000)
		must(t, w.Turn(user("read them all"), nil))
		for range 10 {
			w.read(t, lines("page", 9_000))
		}
		before := w.context(t).Tokens
		pl, r := w.pass(t, kind, &scribe{text: "TASK: read"})
		shortened := w.context(t).Tokens
		if !pl.Span.Call || !r.Span.Call || len(pl.Shortens) == 0 || shortened >= before {
			t.Fatalf("%s: for one call %v; %d tokens of %d", kind, pl.Span.Call, shortened, before)
		}
		must(t, w.Turn(user("and now?"), nil))
		if now := w.context(t).Tokens; now <= before {
			t.Errorf("%s: %d tokens after the user spoke; there were %d, then %d", kind, now, before, shortened)
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
		w.Talk(t, "some", tc.talk, 500)
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
