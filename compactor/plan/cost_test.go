package plan_test

import (
	"testing"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// firstDue returns the first call, of growth by so many tokens each, before which a
// context is due.
func firstDue(pol policy.Policy, growth uint64, with func(*view.Path)) int {
	for n := 1; n < 1000; n++ {
		p := compactortest.PathOfCalls(n, growth)
		with(&p)
		if _, due := plan.Due(p, pol, p.Tokens()); due {
			return n
		}
	}
	return 0
}

func TestCostDue(t *testing.T) {
	pol := builtin("balanced")
	none := func(*view.Path) {}
	const growth = 1000
	// What the calls so far have read less than the next one will, at a tenth of the
	// price of an input token, against what is left, at 1.25 times that price and
	// patience times; what is saved is a tenth at least, and pays for it within as many
	// calls as there were.
	remaining := func(p policy.Policy) float64 {
		s := plan.SizesOf(compactortest.PathOfCalls(1, growth), p, turns.Trigger{}, 0)
		return float64(s.Replacement() + s.Keep)
	}
	want := func(p policy.Policy, read, write float64) int {
		for n := 1; ; n++ {
			grown := 0.0
			for i := range n {
				grown += float64(n*growth - (i*growth + growth/2)) // the context of call i had the messages of its turn
			}
			saves := float64(n*growth) - remaining(p)
			if saves >= 0.1*float64(n*growth) && grown*read >= p.Cost.Patience*write*remaining(p) && write*remaining(p) <= saves*read*float64(n) {
				return n
			}
		}
	}
	for _, patience := range []float64{1, 4, 12} {
		pol.Cost.Patience = patience
		if got, w := firstDue(pol, growth, none), want(pol, 0.1, 1.25); got != w {
			t.Errorf("patience %v: due after %d calls, by the rule %d", patience, got, w)
		}
	}
	pol.Cost.Patience = 4
	base := firstDue(pol, growth, none)
	known := tokens.Price{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000}
	if got := firstDue(pol, growth, func(p *view.Path) { p.Prices.Model = known }); got != base {
		t.Errorf("by the prices that are taken where none are known: due after %d calls, else %d", got, base)
	}
	if got := firstDue(pol, growth, func(p *view.Path) { p.Cold = true }); got >= base || got == 0 {
		t.Errorf("with a cold cache: due after %d calls, with a warm one %d", got, base)
	}
	if got := firstDue(pol, growth, func(p *view.Path) { p.Prices = view.Prices{Model: known, Summarizer: known} }); got <= base {
		t.Errorf("where a summary is paid for: due after %d calls, else %d", got, base)
	}
	if got := firstDue(pol, growth, func(p *view.Path) { p.Prices.Summarizer = known }); got != base {
		t.Errorf("a summarizer's price cannot be compared with an unknown one: due after %d calls, else %d", got, base)
	}
	if got, w := firstDue(pol, growth, func(p *view.Path) { p.Prices.Model = tokens.Price{Input: 1_000_000} }), want(pol, 1, 1); got != w {
		t.Errorf("without a cache: due after %d calls, by the rule %d", got, w)
	}
	pol.Cost.FromRatio = 0.7
	if got := firstDue(pol, growth, none); got <= base {
		t.Errorf("from 70 %% of the budget on: due after %d calls, else %d", got, base)
	}
	pol.Cost = policy.Cost{}
	if got, s := firstDue(pol, growth, none), plan.SizesOf(compactortest.PathOfCalls(1, growth), pol, turns.Trigger{}, 0); uint64(got) != (s.Trigger-1000)/growth+1 {
		t.Errorf("without: due after %d calls, over %d tokens", got, s.Trigger)
	}
	// A session that has just begun, with a large message, is not expected to go on.
	pol.Cost.Patience = 0.001
	p := compactortest.PathOfCalls(1, 60_000)
	if f := plan.CoverForecast(p, pol, 61_000, plan.SizesOf(p, pol, turns.Trigger{}, 0)); f.Pays || f.Payback <= 1 {
		t.Errorf("after one call: %+v", f)
	}
}

// What a provider counts besides is no growth, and what could not be gained is
// not tried: neither makes a compaction due.
func TestCostCountsWhatItCanTakeAway(t *testing.T) {
	pol := builtin("balanced")
	pol.Measure = policy.Higher
	pol.Cost.Patience = 4
	base := firstDue(pol, 1000, func(*view.Path) {})
	nextTo := func(p *view.Path) { // 60,000 tokens that the ledger never saw
		at := p.Overhead
		for i := range p.Halves {
			if h := &p.Halves[i]; h.Half == turns.ResponseHalf {
				h.Reported = at + 60_000
			}
			at += p.Halves[i].Tokens
		}
	}
	if got := firstDue(pol, 1000, nextTo); got < base-1 {
		t.Errorf("due after %d calls, without what the provider counts besides after %d", got, base)
	}
	pol = builtin("balanced")
	pol.Cost.Patience, pol.KeepTurns = 0.001, 40
	p := compactortest.PathOfCalls(41, 1000)
	if f := plan.CoverForecast(p, pol, p.Overhead+p.Tokens(), plan.SizesOf(p, pol, turns.Trigger{}, 0)); f.Saves > 0 && f.Pays && f.Saves < 3000 {
		t.Errorf("with 40 turns kept of 41: %+v", f)
	}
	pol.KeepTurns, pol.MinReclaimRatio = 0, 0.8
	p = compactortest.PathOfCalls(100, 1000)
	if f := plan.CoverForecast(p, pol, p.Overhead+p.Tokens(), plan.SizesOf(p, pol, turns.Trigger{}, 0)); f.Pays {
		t.Errorf("less than the least progress pays: %+v", f)
	}
}
