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
