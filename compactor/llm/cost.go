package llm

import (
	"fmt"
	"math"
	"sync"
	"time"
)

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
