package tokens

import (
	"math"
	"math/bits"

	"nexus/turns"
)

// Price is in micro-dollars for a million tokens: 3,000,000 is three dollars a
// million. The zero Price is unknown or free. A zero for the cache alone says
// that the provider bills such tokens as input.
type Price struct {
	Input      uint64 `json:"input"`
	Output     uint64 `json:"output"`
	CacheRead  uint64 `json:"cache_read"`
	CacheWrite uint64 `json:"cache_write"`
	CacheHour  uint64 `json:"cache_write_1h,omitzero"` // of what stays in the cache for an hour; 0: as CacheWrite
}

// Source says where a price is from, and as of which day.
type Source struct {
	Name string `json:"name"`
	Date string `json:"date"` // as in 2026-07-02
}

// Picos returns what u costs in millionths of micro-dollars, exactly; hour says how many
// of the tokens written to the cache stay there for an hour. A cost that does not fit is
// the largest number.
func (p Price) Picos(u turns.Usage, hour uint64) uint64 {
	hi, lo := p.picos(u, hour)
	if hi > 0 {
		return math.MaxUint64
	}
	return lo
}

// Of returns what u costs in micro-dollars, rounded up. Usage counts the tokens
// read from and written to the cache among the input tokens.
func (p Price) Of(u turns.Usage) uint64 {
	hi, lo := p.picos(u, 0)
	const million = 1_000_000
	if hi >= million {
		return math.MaxUint64
	}
	q, r := bits.Div64(hi, lo, million)
	if r > 0 && q < math.MaxUint64 {
		q++
	}
	return q
}

// picos returns the high and the low word of what [Price.Picos] returns.
func (p Price) picos(u turns.Usage, hour uint64) (hi, lo uint64) {
	read := min(u.CacheRead, u.InputTokens)
	written := min(u.CacheCreation, u.InputTokens-read)
	hour = min(hour, written)
	p = p.Filled()
	for _, f := range [...][2]uint64{
		{u.InputTokens - read - written, p.Input}, {read, p.CacheRead}, {written - hour, p.CacheWrite}, {hour, p.CacheHour}, {u.OutputTokens, p.Output},
	} {
		h, l := bits.Mul64(f[0], f[1])
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		if hi, carry = bits.Add64(hi, h, carry); carry > 0 {
			return math.MaxUint64, math.MaxUint64
		}
	}
	return hi, lo
}

// Filled returns p with what it does not state: the cache at the price of input, an hour
// in it at that of a write.
func (p Price) Filled() Price {
	p.CacheRead, p.CacheWrite = p.orInput(p.CacheRead), p.orInput(p.CacheWrite)
	if p.CacheHour == 0 {
		p.CacheHour = p.CacheWrite
	}
	return p
}

// orInput returns price, and the price of input for 0.
func (p Price) orInput(price uint64) uint64 {
	if price == 0 {
		return p.Input
	}
	return price
}
