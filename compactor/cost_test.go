package compactor

import (
	"errors"
	"strings"
	"testing"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
)

// A large result close behind is shown shortened where that pays before a
// compaction would: all before it stays in the cache. Where to cover pays, that
// is done.
func TestCostPrunes(t *testing.T) {
	pol := builtin("balanced")
	pol.Elide = builtin("autobyteus").Elide
	pol.Elide.Tools, pol.Elide.ProtectRecent, pol.Elide.MinChars = true, 2, 2000
	w := newWorld()
	step := func(id string, chars int) {
		t.Helper()
		call := &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: id, Name: "read", Arguments: turns.Raw(`{}`)}}}
		if err := w.Turn([]turns.Message{turns.TextMessage(turns.User, strings.Repeat("go on ", 100))}, call); err != nil {
			t.Fatal(err)
		}
		result := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(strings.Repeat("line ", chars/5))}}}
		answer := turns.TextMessage(turns.Assistant, "noted")
		if err := w.Turn([]turns.Message{result}, &answer); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		step(string(rune('a'+i)), 6000)
	}
	if p := w.Path(); due(p, pol) {
		t.Fatal("results of 6,000 characters among many are due")
	}
	step("large", 200_000)
	step("y", 1000)
	step("z", 1000)
	p := w.Path()
	trigger, is := plan.Due(p, pol, p.Tokens())
	if !is || !strings.Contains(string(trigger.Detail), `"rewrite_tokens":`) {
		t.Fatalf("not due: %v", trigger)
	}
	pl, err := plan.New(p, pol, trigger, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if pl.Kind != plan.Shorten || len(pl.Covered) > 0 || len(pl.Span.Elisions) != 1 || pl.TokensKept > p.Tokens()-40_000 {
		t.Fatalf("quiet %v, %d covered, %d elisions, %d of %d tokens stay", pl.Kind == plan.Shorten, len(pl.Covered), len(pl.Span.Elisions), pl.TokensKept, p.Tokens())
	}
	r, err := Run(t.Context(), pl, nil, p.CountedBy(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.compaction(r); err != nil {
		t.Fatal(err)
	}
	if p := w.Path(); due(p, pol) {
		t.Error("due again at once")
	}
	pol.Cost.Patience = 0.5 // to cover pays, and more
	trigger, is = plan.Due(p, pol, p.Tokens())
	if pl, err = plan.New(p, pol, trigger, plan.Options{}); !is || err != nil || pl.Kind == plan.Shorten || len(pl.Covered) == 0 {
		t.Errorf("due %v, %v: not covered", is, err)
	}
}

func due(p view.Path, pol policy.Policy) bool {
	_, due := plan.Due(p, pol, p.Tokens())
	return due
}

// The provider's counts stretch the policy's: limits are reached earlier, after a
// compaction too, when none has been counted yet; and never later.
func TestCalibrated(t *testing.T) {
	pol := builtin("balanced")
	pol.Cost = policy.Cost{}
	p := compactortest.PathOfCalls(60, 1000)
	at := p.Overhead
	reports := func(factor float64) view.Path {
		q, at := p, at
		q.Halves = append([]summary.HalfTurn(nil), p.Halves...)
		for i := range q.Halves {
			if h := &q.Halves[i]; h.Half == turns.ResponseHalf {
				h.Reported = uint64(float64(at) * factor)
			}
			at += q.Halves[i].Tokens
		}
		return q
	}
	plain := plan.Threshold(p, pol)
	for _, test := range []struct{ factor, ratio float64 }{{1, 1}, {0.7, 1}, {1.5, 1.5}, {3, 2}, {30, 1}} {
		q := reports(test.factor)
		if got := q.Ratio(pol); got < test.ratio-0.01 || got > test.ratio+0.01 {
			t.Errorf("counted %v times as much: ratio %v, want %v", test.factor, got, test.ratio)
		}
		if got := plan.Threshold(q, pol); got > uint64(float64(plain)/test.ratio)+1000 || got < uint64(float64(plain)/test.ratio)-60_000 {
			t.Errorf("counted %v times as much: due over %d, plain %d", test.factor, got, plain)
		}
		if plan.Fits(pol, q, 100_000, 125_000) != (test.ratio < 1.2) || !plan.MayFit(pol, q, 100_000, 125_000) {
			t.Errorf("counted %v times as much: fits %v, may fit %v", test.factor, plan.Fits(pol, q, 100_000, 125_000), plan.MayFit(pol, q, 100_000, 125_000))
		}
	}
	other := pol
	other.Measure = policy.Higher
	if got := reports(1.5).Ratio(other); got != 1 {
		t.Errorf("measure higher has a ratio of %v", got)
	}
	// A compaction carries it.
	q := reports(1.5)
	pl, err := plan.New(q, pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(t.Context(), pl, nil, q.CountedBy(), nil)
	if err != nil {
		t.Fatal(err)
	}
	after := Apply(pl, q, res, q.CountedBy())
	for i := range after.Halves {
		after.Halves[i].Reported = 0
	}
	if got := after.Ratio(pol); got < 1.49 || got > 1.51 {
		t.Errorf("after a compaction the ratio is %v", got)
	}
	// What was counted before something else came in force counts for nothing.
	q.Changed = q.Head.Depth
	if got := q.Ratio(pol); got != 1 {
		t.Errorf("counts of other contexts give a ratio of %v", got)
	}
}

// A calibration leaves room wherever there is some, for it may be wrong: an
// overhead that fills most of the window, counted higher by the provider than the
// whole, stops neither compactions nor calls.
func TestCalibrationLeavesRoom(t *testing.T) {
	for _, window := range []uint64{8_000, 64_000, 200_000} {
		for _, share := range []float64{0.1, 0.5, 0.65, 0.9} {
			for _, ratio := range []float64{1, 1.3, 2, 4} {
				pol := builtin("balanced")
				p := compactortest.PathOfCalls(0, 0)
				p.Limits.ContextWindow = window
				p.Overhead = uint64(float64(pol.Budget(p.Limits)) * share)
				compacted := 0
				for i := range 400 {
					ref := turns.Ref{Session: p.Session, Turn: testID(uint64(i + 2))}
					p.Head = lineage.Node{Ref: ref, Depth: p.Head.Depth + 1}
					p.Halves = append(p.Halves, summary.HalfTurn{Ref: ref, Depth: p.Head.Depth, Half: turns.MessagesHalf, Tokens: window / 200,
						Messages: []turns.Message{turns.TextMessage(turns.User, "x")}})
					if trigger, due := plan.Due(p, pol, p.Tokens()); due {
						pl, err := plan.New(p, pol, trigger, plan.Options{})
						if err == nil {
							var res Result
							if res, err = Run(t.Context(), pl, nil, approx, nil); err == nil {
								p = Apply(pl, p, res, approx)
								p.Head = p.InForce.Node
								compacted++
							}
						}
						if err != nil && !errors.Is(err, plan.ErrNothing) {
							t.Fatalf("window %d, overhead %v, ratio %v, turn %d: %v", window, share, ratio, i, err)
						}
					}
					if at := p.Overhead + p.Tokens(); !plan.MayFit(pol, p, p.Tokens(), pol.Budget(p.Limits)) {
						t.Fatalf("window %d, overhead %v, ratio %v, turn %d: %d tokens do not fit", window, share, ratio, i, at)
					}
					p.Halves = append(p.Halves, summary.HalfTurn{Ref: ref, Depth: p.Head.Depth, Half: turns.ResponseHalf, Tokens: window / 400,
						Messages: []turns.Message{turns.TextMessage(turns.Assistant, "y")}, Reported: uint64(ratio * float64(p.Overhead+p.Tokens()))})
				}
				bound := 130
				if share > 0.8 {
					bound = 210 // a turn is a fifth of what is left for messages
				}
				if compacted == 0 || compacted > bound {
					t.Errorf("window %d, overhead %v, ratio %v: %d compactions of 400 calls", window, share, ratio, compacted)
				}
			}
		}
	}
}
