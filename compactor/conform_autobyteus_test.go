package compactor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/plan"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

// Rows AUT-1 to AUT-4: what the Autobyteus design promises of a policy. That a
// session without a limit is given whole is in the engine's test of AUT-2.

func autobyteusWorld(t *testing.T, set string) *world {
	w := newWorld()
	pol, err := builtin("autobyteus").With(turns.Raw(set))
	must(t, err)
	w.Policy = pol
	return w
}

// AUT-1: after a compaction the snapshot, that is the replacement of the past and the
// recent tail, is the base that new turns are appended to; the next compaction
// begins a new epoch.
func TestNewTurnsExtendTheSnapshotUntilTheNextEpoch(t *testing.T) {
	w := autobyteusWorld(t, `{}`)
	w.Talk(t, "first", 8, 60)
	tail := w.context(t).Messages[8:] // of the newest four turns
	var base []turns.Message
	for epoch := range 2 {
		s := &scribe{text: fmt.Sprintf("episode %d", epoch)}
		w.pass(t, plan.TriggerManual, s)
		cx := w.context(t)
		if m := cx.Messages[0]; m.Role != turns.User || !strings.Contains(summary.TextOf(&m), s.text) {
			t.Errorf("epoch %d begins with %s: %s", epoch, m.Role, summary.TextOf(&m))
		}
		if diff := cmp.Diff(tail, cx.Messages[1:]); diff != "" {
			t.Errorf("epoch %d: the raw tail (-as sent +in the context):\n%s", epoch, diff)
		}
		base = cx.Messages
		for i := range 6 {
			w.Talk(t, fmt.Sprintf("epoch %d.%d", epoch, i), 1, 60)
			next := w.context(t).Messages
			if diff := cmp.Diff(base, next[:len(base)]); diff != "" || len(next) != len(base)+2 {
				t.Fatalf("epoch %d: turn %d changed the base:\n%s", epoch, i, diff)
			}
			base = next
		}
		tail = base[len(base)-8:]
		if epoch == 1 && s.in[0].Previous != "episode 0" {
			t.Errorf("the second epoch was made from %q", s.in[0].Previous)
		}
	}
}

// AUT-2: the input budget is token_limit - max_output_tokens - safety_margin;
// without a limit nothing is due by size, but by other triggers it is.
func TestBudgetIsLimitLessOutputAndMargin(t *testing.T) {
	pol := builtin("autobyteus")
	limits := turns.Limits{ContextWindow: 128_000, MaxOutputTokens: 8_000, SafetyMargin: 1_500}
	const budget = 118_500
	if got := pol.Budget(limits); got != budget {
		t.Errorf("budget %d, want %d", got, budget)
	}
	for _, c := range []struct {
		limits             turns.Limits
		estimate, reported uint64
		turns              uint64
		kind               string // "": not due
	}{
		{limits, 1_000, budget, 0, ""},
		{limits, 1_000, budget + 1, 0, plan.TriggerThreshold},
		{limits, budget + 1, 1_000, 0, ""}, // what the response reported counts, not the estimate
		{limits, budget + 1, 0, 0, plan.TriggerThreshold},
		{turns.Limits{}, 900_000, 900_000, 0, ""},
		{turns.Limits{}, 900_000, 900_000, 5, plan.TriggerTurns},
	} {
		p := pol
		p.EveryTurns = c.turns
		trigger, due := plan.DueAt(view.Path{Limits: c.limits}, p, view.Load{Tokens: c.estimate, Reported: c.reported, Turns: 5})
		if due != (c.kind != "") || trigger.Kind != c.kind {
			t.Errorf("%+v: due %v by %q", c, due, trigger.Kind)
		}
	}
	if !pol.Unlimited(turns.Limits{MaxOutputTokens: 8_000}) || pol.Unlimited(limits) {
		t.Error("a session is without a limit exactly where it states no window")
	}
}

// AUT-3: due by what the last response reported, before the next call; by the
// number of turns; by a tool's output that is too large, where those that came
// with the newest results are shortened and nothing else; and when it is asked for.
func TestDueByReportTurnsLargeOutputOrRequest(t *testing.T) {
	w := autobyteusWorld(t, `{}`)
	w.Limits = turns.Limits{ContextWindow: 100_000, MaxOutputTokens: 8_000, SafetyMargin: 2_000}
	w.Talk(t, "some", 3, 60)
	due := func() string {
		trigger, _ := plan.Due(w.Path(), w.Policy, w.context(t).Tokens)
		return trigger.Kind
	}
	if got := due(); got != "" {
		t.Errorf("due by %s at the start", got)
	}
	w.Halves[len(w.Halves)-1].Reported = 90_001
	if got := due(); got != plan.TriggerThreshold {
		t.Errorf("due by %q after a response that reports 90001 of 90000", got)
	}
	w.Halves[len(w.Halves)-1].Reported = 0

	w.Policy.EveryTurns = 4
	if got := due(); got != "" {
		t.Errorf("due by %s after three turns", got)
	}
	w.Talk(t, "one more", 1, 60)
	if got := due(); got != plan.TriggerTurns {
		t.Errorf("due by %q after four turns", got)
	}
	w.Policy.EveryTurns = 0

	w.read(t, lines("large", 70_000)) // an older one, which was let through
	w.Halves[len(w.Halves)-1].Messages[0].Parts[0] = result(w.Halves[len(w.Halves)-1].Messages[0].Parts[0].ID, lines("older", 59_000))
	w.read(t, lines("small", 1_000), lines("large", 60_000))
	if got := due(); got != "" {
		t.Errorf("due by %s with an output of 60000 characters", got)
	}
	w.read(t, lines("small", 1_000), lines("other", 61_000), lines("large", 60_001))
	if got := due(); got != plan.TriggerLargeOutput {
		t.Fatalf("due by %q with an output of 60001 characters", got)
	}
	before := toolTexts(w.context(t))
	pl, r := w.pass(t, plan.TriggerLargeOutput, &scribe{})
	after := toolTexts(w.context(t))
	changed := 0
	for i := range before {
		if before[i] != after[i] {
			changed++
		}
	}
	last := after[len(after)-1]
	if changed != 2 || len(last) > 9_200 || !strings.HasPrefix(last, "large line 0\n") || !strings.Contains(last, "of 60,001 characters are left out here") {
		t.Errorf("%d outputs changed, the newest to %d characters", changed, len(last))
	}
	if r.Body.Tier != plan.ElideTier || r.Span.Covered != 0 || pl.Targets() != 2 {
		t.Errorf("by %s, %d turns covered, %d targets; want the newest outputs, without a summary", r.Body.Tier, r.Span.Covered, pl.Targets())
	}
	if got := due(); got != "" {
		t.Errorf("due by %s after it was shortened", got)
	}
	if pl, _ := w.pass(t, plan.TriggerManual, &scribe{text: "asked for"}); pl.Span.Covered == 0 {
		t.Error("asked for, nothing was compacted")
	}
}

// AUT-4: the raw tail is kept as long as the policy says, also where the number of turns is what
// makes a compaction due.
func TestRawTailIsKeptWhenTurnsAreCounted(t *testing.T) {
	for _, c := range []struct{ every, keep int }{{6, 4}, {10, 6}, {6, 2}, {4, 4}} {
		w := autobyteusWorld(t, fmt.Sprintf(`{"every_turns":%d,"keep_turns":%d}`, c.every, c.keep))
		w.Talk(t, "some", c.every+1, 60)
		if pl, _ := w.pass(t, plan.TriggerTurns, &scribe{text: "an episode"}); len(pl.Kept) != 2*c.keep {
			t.Errorf("every %d turns, %d kept: it keeps %d halves", c.every, c.keep, len(pl.Kept))
		}
	}
}

// AUT-4: all turns but the raw tail are summarized, by any summarizer, into an
// episodic summary and semantic facts, typed, each once, with their source turns.
func TestTurnsBeforeTheRawTailBecomeEpisodeAndFacts(t *testing.T) {
	w := autobyteusWorld(t, `{"keep_turns":2}`)
	w.Talk(t, "some", 6, 60)
	refs := map[uint64]turns.Ref{}
	for _, h := range w.Halves {
		refs[h.Depth] = h.Ref
	}
	const answer = `{"episodic_summary":"They spoke of six things.","semantic_facts":[
		{"type":"preference","text":"Likes tea","turns":[1,2]},
		{"type":"fact","text":"The port is 8080.","turns":[3]},
		{"type":"preference","text":"Likes tea.","turns":[4,6]}]}`
	asked := 0
	model := summarizerFunc(func(_ context.Context, in summary.Input) (summary.Output, error) {
		asked++
		tmpl, ok := summary.FindTemplate(in.Template)
		if !ok || tmpl.Shape != summary.Facts {
			t.Errorf("asked by the template %q", in.Template)
		}
		return tmpl.Parse(answer, in.Halves)
	})
	pl, r := w.pass(t, plan.TriggerManual, model)
	if asked != 1 || pl.Span.Covered != 4 || len(pl.Kept) != 4 || pl.Span.Through != refs[4] || pl.Span.FirstKept != refs[5] {
		t.Errorf("asked %d times; covers %d turns through %v, keeps %d halves", asked, pl.Span.Covered, pl.Span.Through, len(pl.Kept))
	}
	if r.Body.Summary != "They spoke of six things." {
		t.Errorf("summary %q", r.Body.Summary)
	}
	source := func(depths ...uint64) (out []view.TurnName) { // turn 6 was not summarized
		for _, d := range depths {
			out = append(out, view.NameOf(refs[d]))
		}
		return out
	}
	want, err := turns.EncodeJSON([]map[string]any{
		{"kind": "preference", "text": "Likes tea", "source": source(1, 2, 4)},
		{"kind": "fact", "text": "The port is 8080.", "source": source(3)},
	})
	must(t, err)
	var a, b any
	must(t, turns.DecodeJSON(want, &a))
	must(t, turns.DecodeJSON(r.Body.Memories, &b))
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("semantic facts (-want +got):\n%s", diff)
	}
	if got := builtin("autobyteus").KeepTurns; got != 4 {
		t.Errorf("raw_tail_turns is %d", got)
	}
}
