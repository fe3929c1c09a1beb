package plan_test

import (
	"testing"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
)

// NEX-7.
func TestNexusIsDueOverWindowLessReserve(t *testing.T) {
	p, ok := policy.Builtin("nexus")
	if !ok || p.ReserveTokens != 20_000 || p.KeepTokens != 30_000 || p.ReplacementRole != turns.System {
		t.Fatalf("%+v", p)
	}
	for _, c := range []struct {
		tokens uint64
		due    bool
	}{{0, false}, {179_999, false}, {180_000, false}, {180_001, true}} {
		trigger, due := plan.Due(view.Path{}, p, c.tokens)
		if due != c.due {
			t.Errorf("%d tokens of 200000: due %v, want %v", c.tokens, due, c.due)
		}
		if want := `{"tokens":180001,"overhead":0,"threshold":180000,"budget":182000}`; due && string(trigger.Detail) != want {
			t.Errorf("detail %s, want %s", trigger.Detail, want)
		}
	}
	// Overhead counts as the context that it is part of.
	if _, due := plan.Due(view.Path{Overhead: 10_000}, p, 170_001); !due {
		t.Error("170001 tokens and 10000 of overhead are not due")
	}
	if _, due := plan.Due(view.Path{Overhead: 190_000}, p, 100); due {
		t.Error("due though overhead leaves no room: no compaction can help")
	}
	p.Mode = policy.Manual
	if _, due := plan.Due(view.Path{}, p, 190_000); due {
		t.Error("due under a policy that compacts only when asked")
	}
}

func TestBalancedTrigger(t *testing.T) {
	p, _ := policy.Builtin("balanced")
	for _, c := range []struct {
		window, overhead, budget, threshold uint64
	}{
		{0, 0, 182_000, 150_000},
		{200_000, 12_000, 182_000, 150_000}, // window - reserve
		{32_000, 0, 23_360, 21_024},
		{8_000, 0, 5_840, 5_256},
		{1_000_000, 0, 982_000, 883_800},
	} {
		path := view.Path{Overhead: c.overhead, Limits: turns.Limits{ContextWindow: c.window}}
		if got := p.Budget(path.Limits); got != c.budget {
			t.Errorf("window %d: budget %d, want %d", c.window, got, c.budget)
		}
		if got := plan.Threshold(path, p); got != c.threshold {
			t.Errorf("window %d, overhead %d: threshold %d, want %d", c.window, c.overhead, got, c.threshold)
		}
	}
}

// TestBackgroundLeavesRoom: due in the background is early enough for a call or
// two to be answered from what there is, under every policy and in every window.
func TestBackgroundLeavesRoom(t *testing.T) {
	for _, name := range policy.Names() {
		for _, window := range []uint64{8_000, 32_000, 128_000, 200_000, 1_000_000} {
			pol, _ := policy.Builtin(name)
			pol, err := pol.With(turns.Raw(`{"mode":"background"}`))
			must(t, err)
			p := view.Path{Limits: turns.Limits{ContextWindow: window}, Overhead: window / 20}
			if s := plan.SizesOf(p, pol, turns.Trigger{}, 0); s.Trigger > p.Overhead+s.Room*9/10 {
				t.Errorf("%s in %d: due over %d of %d", name, window, s.Trigger, s.Budget)
			}
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

// An overflow that reports neither window nor count aims at half of what a
// threshold aims at. If it reports one, the budget made from it is used in place of that.
func TestAnOverflowAimsAtHalf(t *testing.T) {
	for _, name := range policy.Names() {
		w := compactortest.NewSession()
		w.Policy, w.Limits.ContextWindow = builtin(name), 200_000
		w.Talk(t, "some", 185, 500)
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
