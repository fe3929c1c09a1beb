package plan

import (
	"testing"

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
		trigger, due := Due(view.Path{}, p, c.tokens)
		if due != c.due {
			t.Errorf("%d tokens of 200000: due %v, want %v", c.tokens, due, c.due)
		}
		if want := `{"tokens":180001,"overhead":0,"threshold":180000,"budget":182000}`; due && string(trigger.Detail) != want {
			t.Errorf("detail %s, want %s", trigger.Detail, want)
		}
	}
	// Overhead counts as the context that it is part of.
	if _, due := Due(view.Path{Overhead: 10_000}, p, 170_001); !due {
		t.Error("170001 tokens and 10000 of overhead are not due")
	}
	if _, due := Due(view.Path{Overhead: 190_000}, p, 100); due {
		t.Error("due though overhead leaves no room: no compaction can help")
	}
	p.Mode = policy.Manual
	if _, due := Due(view.Path{}, p, 190_000); due {
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
		if got := Threshold(path, p); got != c.threshold {
			t.Errorf("window %d, overhead %d: threshold %d, want %d", c.window, c.overhead, got, c.threshold)
		}
	}
}
