package llm

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// Spend bounds what the requests of one UTC day cost. It is counted in memory, so a new process
// begins at 0. A request that began below the limit is finished. It is safe for concurrent
// use.
type Spend struct {
	limit uint64 // micro-dollars a day; 0: no limit

	mu    sync.Mutex
	day   int64 // the day of spent, in days since 1970
	spent uint64
}

// NewSpend returns a bound of so many millionths of a dollar a day; 0: none.
func NewSpend(limit uint64) *Spend { return &Spend{limit: limit} }

// limited reports whether there is a limit.
func (m *Spend) limited() bool { return m != nil && m.limit > 0 }

// open returns [ErrSpend] if the day's limit is reached.
func (m *Spend) open(now time.Time) error {
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

// add adds cost micro-dollars.
func (m *Spend) add(now time.Time, cost uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	if m.spent += cost; m.spent < cost {
		m.spent = math.MaxUint64
	}
}

// turn begins a new day when one has come. A clock that goes back begins none.
func (m *Spend) turn(now time.Time) {
	if day := now.Unix() / (24 * 60 * 60); day > m.day {
		m.day, m.spent = day, 0
	}
}
