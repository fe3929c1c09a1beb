package compactor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/plan"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
)

// Rows NEX-2, NEX-3 and NEX-7: what the Nexus design promises of a policy. NEX-1,
// 4, 6, and the overflow of 7, are in cmd/internal/engine/conform_test.go.

// nexusWorld is under the policy, at the scale of the design's drawings: the tail
// that is kept has room for two turns of [world.talk] by 60.
func nexusWorld(t *testing.T) *world {
	w := newWorld()
	pol, err := builtin("nexus").With(turns.Raw(`{"keep_tokens":300}`))
	must(t, err)
	w.Policy = pol
	return w
}

// states are the turns of the path to w's head by what covers them, as in
// "1-3 by 6, 4-5 shown", depths counted with compactions.
func (w *world) states(t *testing.T) string {
	t.Helper()
	path, err := lineage.Path(&w.Forest, w.Head, 1)
	must(t, err)
	chain, err := lineage.Chain(&w.Forest, w.Head)
	must(t, err)
	var out []string
	var first, last uint64
	var by turns.Ref
	flush := func() {
		if first == 0 {
			return
		}
		what := "shown"
		if !by.IsZero() {
			what = fmt.Sprint("by ", w.Node(by).Depth)
		}
		out = append(out, fmt.Sprintf("%d-%d %s", first, last, what))
	}
	for _, h := range lineage.Cover(path, chain, nil) {
		if h.By != by || first == 0 {
			flush()
			first, by = h.Depth, h.By
		}
		last = h.Depth
	}
	flush()
	return strings.Join(out, ", ")
}

// NEX-2: the first, second and N-th compaction as drawn: the parent is the head,
// which may be a compaction; every turn before the cut is covered by exactly
// one; the new summary includes the previous one.
func TestEachCompactionIncludesTheOneBefore(t *testing.T) {
	w := nexusWorld(t)
	name := map[turns.Ref]string{}
	turn := 0
	talk := func(n int) {
		for range n {
			turn++
			w.Talk(t, fmt.Sprintf("turn %d", turn), 1, 60)
			name[w.Head.Ref] = fmt.Sprintf("turn-%03d", turn)
		}
	}
	type drawn struct{ parent, through, kept, previous, states string }
	compact := func(c int) drawn {
		s := &scribe{text: fmt.Sprintf("summary %d", c)}
		if c > 1 {
			s.text = fmt.Sprintf("Previously summarized: summary %d. Then %s", c-1, s.text)
		}
		pl, r := w.pass(t, plan.TriggerManual, s)
		name[w.Head.Ref] = fmt.Sprintf("compact-%03d", c)
		if want := w.Bodies[pl.Span.Previous].Summary; s.in[0].Previous != want {
			t.Errorf("compaction %d: the summarizer was given %q for the previous summary, want %q", c, s.in[0].Previous, want)
		}
		if r.Body.Summary != s.text || r.Body.TokensAfter >= r.Body.TokensBefore {
			t.Errorf("compaction %d: %q, %d tokens to %d", c, r.Body.Summary, r.Body.TokensBefore, r.Body.TokensAfter)
		}
		return drawn{name[w.Head.Parent], name[r.Span.Through], name[r.Span.FirstKept], name[r.Span.Previous], w.states(t)}
	}
	var got []drawn
	talk(5)
	got = append(got, compact(1))
	talk(3)
	got = append(got, compact(2))
	talk(2)
	got = append(got, compact(3))
	w.Policy.KeepTokens = 150 // one turn: asked again at once, below a compaction
	got = append(got, compact(4))
	want := []drawn{
		{"turn-005", "turn-003", "turn-004", "", "1-3 by 6, 4-5 shown"},
		{"turn-008", "turn-006", "turn-007", "compact-001", "1-3 by 6, 4-7 by 10, 8-9 shown"},
		{"turn-010", "turn-008", "turn-009", "compact-002", "1-3 by 6, 4-7 by 10, 8-9 by 13, 11-12 shown"},
		{"compact-003", "turn-009", "turn-010", "compact-003", "1-3 by 6, 4-7 by 10, 8-9 by 13, 11-11 by 14, 12-12 shown"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(drawn{})); diff != "" {
		t.Errorf("(-drawn +made):\n%s", diff)
	}
}

// NEX-3: a context is the summary of the latest compaction, as a system message,
// and the turns from first_kept on; compactions themselves are skipped.
func TestContextIsSummaryAndTurnsFromFirstKept(t *testing.T) {
	w := nexusWorld(t)
	w.Talk(t, "old", 5, 60)
	w.pass(t, plan.TriggerManual, &scribe{text: "what was said first"})
	w.Talk(t, "new", 3, 60)
	w.pass(t, plan.TriggerManual, &scribe{text: "what was said until now"})
	kept := w.Halves[len(w.Halves)-4:]
	w.Talk(t, "newest", 2, 60)
	cx := w.context(t)
	if m := cx.Messages[0]; m.Role != turns.System || !strings.Contains(summary.TextOf(&m), "what was said until now") {
		t.Errorf("it begins with %s: %s", m.Role, summary.TextOf(&m))
	}
	var want []turns.Message
	for _, h := range slices.Concat(kept, w.Halves[len(w.Halves)-4:]) {
		want = append(want, h.Messages...)
	}
	if diff := cmp.Diff(want, cx.Messages[1:]); diff != "" {
		t.Errorf("the kept turns (-stored +in the context):\n%s", diff)
	}
}

// NEX-7: due over context_window - reserve_tokens, 20,000, by a threshold or an
// overflow, or when it is asked for; 30,000 tokens are kept.
func TestDueByThresholdOverflowOrRequest(t *testing.T) {
	pol := builtin("nexus")
	for _, c := range []struct {
		window, tokens uint64
		due            bool
	}{{200_000, 180_000, false}, {200_000, 180_001, true}, {128_000, 108_000, false}, {128_000, 108_001, true}, {0, 180_001, true}} {
		_, due := plan.Due(view.Path{Limits: turns.Limits{ContextWindow: c.window, MaxOutputTokens: 8_000}}, pol, c.tokens)
		if due != c.due {
			t.Errorf("%d tokens of %d: due %v, want %v", c.tokens, c.window, due, c.due)
		}
	}
	for _, kind := range []string{plan.TriggerThreshold, plan.TriggerManual, plan.TriggerOverflow} {
		w := newWorld()
		w.Policy = pol
		w.Limits.ContextWindow = 200_000
		w.Talk(t, "some", 185, 500)
		pl, r := w.pass(t, kind, &scribe{text: "so far"})
		keep := uint64(30_000)
		if kind == plan.TriggerOverflow {
			keep /= 2 // the provider refused what the counter took for small enough
		}
		if pl.TokensKept > keep || pl.TokensKept < keep-1_100 || r.Body.Trigger.Kind != kind {
			t.Errorf("%s: keeps %d tokens of %d, want %d and no turn more", r.Body.Trigger.Kind, pl.TokensKept, pl.TokensBefore, keep)
		}
	}
}
