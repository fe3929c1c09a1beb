package tokens

import (
	"math"
	"testing"

	"nexus/turns"
)

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
