package llm

import (
	"errors"
	"testing"
	"time"
)

// A day is spent once: a clock that goes back, over midnight or by years, gives
// nothing back, and what is spent by it counts for the day that was the latest.
func TestAClockThatGoesBackGivesNothingBack(t *testing.T) {
	today := time.Date(2026, 11, 21, 0, 0, 30, 0, time.UTC)
	m := Spend{limit: 20}
	spend := func(at time.Time, want error) {
		t.Helper()
		if err := m.open(at); !errors.Is(err, want) {
			t.Errorf("at %v: %v, want %v", at, err, want)
		}
		if want == nil {
			m.add(at, 10)
		}
	}
	spend(today, nil)
	spend(today.Add(-time.Minute), nil)
	spend(today.Add(-time.Minute), ErrSpend)
	spend(today.AddDate(-50, 0, 0), ErrSpend)
	spend(today, ErrSpend)
	m.add(today.Add(-time.Minute), 10) // one that was under way
	spend(today.Add(time.Hour), ErrSpend)
	spend(today.AddDate(0, 0, 1), nil)
}
