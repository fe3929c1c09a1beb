package llm

import (
	"fmt"
	"math"
	"math/bits"
	"sync"
	"time"

	"nexus/turns"
)

// Price is what a model costs, in millionths of a dollar per million tokens:
// 3_000_000 is three dollars a million.
type Price struct {
	Input     uint64
	Output    uint64
	CacheRead uint64 // of input tokens that came from the provider's cache; 0: as Input
}

// Of is what u costs, in millionths of a dollar, rounded up. Tokens written to
// the provider's cache count as input.
func (p Price) Of(u turns.Usage) uint64 {
	cached := min(u.CacheRead, u.InputTokens)
	read := p.CacheRead
	if read == 0 {
		read = p.Input
	}
	var hi, lo uint64
	for _, f := range [...][2]uint64{{u.InputTokens - cached, p.Input}, {cached, read}, {u.OutputTokens, p.Output}} {
		h, l := bits.Mul64(f[0], f[1])
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		if hi, carry = bits.Add64(hi, h, carry); carry > 0 {
			return math.MaxUint64
		}
	}
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

// meter counts what the requests of one UTC day cost. Safe for concurrent use.
type meter struct {
	limit uint64 // micro-dollars a day; 0: none

	mu    sync.Mutex
	day   int64 // days since 1970, of spent
	spent uint64
}

// open returns [ErrSpend] once the day's limit is reached.
func (m *meter) open(now time.Time) error {
	if m.limit == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	if m.spent < m.limit {
		return nil
	}
	return fmt.Errorf("%w: %d of %d micro-dollars on %s", ErrSpend, m.spent, m.limit, now.UTC().Format(time.DateOnly))
}

// add counts what was spent, in micro-dollars.
func (m *meter) add(now time.Time, cost uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	if m.spent += cost; m.spent < cost {
		m.spent = math.MaxUint64
	}
}

// turn begins a new day where one has come. A clock that goes back does not.
func (m *meter) turn(now time.Time) {
	if day := now.Unix() / (24 * 60 * 60); day > m.day {
		m.day, m.spent = day, 0
	}
}
