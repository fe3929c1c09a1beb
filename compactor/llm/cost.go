package llm

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// meter adds up what the requests of one UTC day cost. It is safe for concurrent
// use.
type meter struct {
	limit uint64 // micro-dollars a day; 0: no limit

	mu    sync.Mutex
	day   int64 // the day of spent, in days since 1970
	spent uint64
}

// open returns [ErrSpend] if the day's limit is reached.
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

// add adds cost micro-dollars.
func (m *meter) add(now time.Time, cost uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	if m.spent += cost; m.spent < cost {
		m.spent = math.MaxUint64
	}
}

// turn begins a new day when one has come. A clock that goes back begins none.
func (m *meter) turn(now time.Time) {
	if day := now.Unix() / (24 * 60 * 60); day > m.day {
		m.day, m.spent = day, 0
	}
}
