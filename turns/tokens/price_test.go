package tokens

import (
	"math"
	"testing"
	"time"

	"nexus/turns"
)

func TestPriceOfAnHourInTheCache(t *testing.T) {
	usage := turns.Usage{InputTokens: 100, CacheCreation: 60, CacheRead: 10, OutputTokens: 2}
	for _, tc := range []struct {
		p    Price
		hour uint64
		want uint64
	}{
		{Price{Input: 2, Output: 9, CacheRead: 1, CacheWrite: 3, CacheHour: 5}, 0, 30*2 + 10 + 60*3 + 2*9},
		{Price{Input: 2, Output: 9, CacheRead: 1, CacheWrite: 3, CacheHour: 5}, 20, 30*2 + 10 + 40*3 + 20*5 + 2*9},
		{Price{Input: 2, Output: 9, CacheRead: 1, CacheWrite: 3, CacheHour: 5}, 99, 30*2 + 10 + 60*5 + 2*9}, // no more than was written
		{Price{Input: 2, Output: 9, CacheRead: 1, CacheWrite: 3}, 20, 30*2 + 10 + 60*3 + 2*9},
		{Price{Input: math.MaxUint64}, 0, math.MaxUint64},
	} {
		if got := tc.p.Picos(usage, tc.hour); got != tc.want {
			t.Errorf("%+v with %d for an hour: %d, want %d", tc.p, tc.hour, got, tc.want)
		}
	}
}

func TestEveryKnownPriceNamesItsSourceAndDay(t *testing.T) {
	for _, m := range modelTable() {
		if _, err := time.Parse(time.DateOnly, m.PriceSource.Date); err != nil || m.PriceSource.Name == "" {
			t.Errorf("%s: source %+v", m.Name, m.PriceSource)
		}
	}
	if m, ok := KnownModels().Find("claude-opus-4-5-20251101"); !ok || m.Price.CacheHour != 10_000_000 || m.PriceSource != modelsDev {
		t.Errorf("%+v", m)
	}
}

func TestPriceRoundsUpAndBillsTheCache(t *testing.T) {
	haiku := Price{Input: 1_000_000, Output: 5_000_000, CacheRead: 100_000} // dollars 1, 5 and 0.1 a million
	for _, tc := range []struct {
		p    Price
		u    turns.Usage
		want uint64
	}{
		{haiku, turns.Usage{}, 0},
		{haiku, turns.Usage{InputTokens: 7500, OutputTokens: 750}, 11_250},
		{haiku, turns.Usage{InputTokens: 7500, OutputTokens: 750, CacheRead: 7000}, 500 + 700 + 3750},
		{haiku, turns.Usage{InputTokens: 10, CacheRead: 20}, 1},
		{Price{Input: 1}, turns.Usage{InputTokens: 1}, 1}, // rounded up
		{Price{Input: 4_000_000}, turns.Usage{InputTokens: 10, CacheRead: 10}, 40},
		{Price{Input: math.MaxUint64, Output: math.MaxUint64}, turns.Usage{InputTokens: math.MaxUint64, OutputTokens: math.MaxUint64}, math.MaxUint64},
	} {
		if got := tc.p.Of(tc.u); got != tc.want {
			t.Errorf("%+v of %+v: %d, want %d", tc.u, tc.p, got, tc.want)
		}
	}
}

// A call with more input than a model's threshold has the long price for all its tokens;
// the cache counts as input. One at the threshold has the other.
func TestLongCallsHaveTheLongPrice(t *testing.T) {
	for name, want := range map[string]struct {
		above           uint64
		short, exceeded float64 // dollars of a call with so much input, half of it read from the cache, and 1,000 tokens of output
	}{
		"claude-sonnet-4-5": {200_000, 0.1*3 + 0.1*0.3 + 0.001*15, 0.1*6 + 0.1*0.6 + 0.001*22.5},
		"gemini-2.5-pro":    {200_000, 0.1*1.25 + 0.1*0.125 + 0.001*10, 0.1*2.5 + 0.1*0.25 + 0.001*15},
		"gpt-5.5":           {272_000, 0.136*5 + 0.136*0.5 + 0.001*30, 0.136*10 + 0.136*1 + 0.001*45},
		"claude-opus-4-6":   {200_000, 0.1*5 + 0.1*0.5 + 0.001*25, 0.1*5 + 0.1*0.5 + 0.001*25}, // it has no threshold
	} {
		m, ok := KnownModels().Priced(name)
		if !ok {
			t.Fatal(name)
		}
		u := turns.Usage{InputTokens: want.above, CacheRead: want.above / 2, OutputTokens: 1000}
		if got := float64(m.PriceOf(u).Picos(u, 0)) / 1e12; math.Abs(got-want.short) > 1e-9 {
			t.Errorf("%s at its threshold: %v, not %v", name, got, want.short)
		}
		u.InputTokens++
		if got := float64(m.PriceOf(u).Picos(u, 0)) / 1e12; math.Abs(got-want.exceeded) > 1e-4 {
			t.Errorf("%s above it: %v, not %v", name, got, want.exceeded)
		}
	}
}
