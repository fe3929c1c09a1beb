package cost

import (
	"testing"
	"time"

	"nexus/ledger/api"
	"nexus/turns"
)

// A session is left unread only if each of its calls is known to be before the bounds.
func TestASessionIsPastOnlyIfAllItsCallsAre(t *testing.T) {
	since := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := func(t time.Time) *api.Time { x := api.Time(t); return &x }
	past := func() api.Session {
		return api.Session{Head: new(turns.ID), Depth: 9, Turns: 9, Policy: api.PolicyInForce{Name: "balanced"}, HeadTime: at(since.Add(-time.Second)), Updated: api.Time(since.Add(time.Hour))}
	}
	for name, tc := range map[string]struct {
		change func(*api.Session)
		want   bool
	}{
		"all before":               {func(*api.Session) {}, true},
		"a bound from above":       {func(s *api.Session) { s.HeadTimeBound = turns.TimeNotAfter }, true},
		"a bound from below":       {func(s *api.Session) { s.HeadTimeBound = turns.TimeNotBefore }, false},
		"at the bound":             {func(s *api.Session) { s.HeadTime = at(since) }, false},
		"no time":                  {func(s *api.Session) { s.HeadTime = nil }, false},
		"a turn on another branch": {func(s *api.Session) { s.Turns = 10 }, false},
		"a compaction":             {func(s *api.Session) { s.Compactions, s.Depth = 1, 10 }, false},
		"a fork":                   {func(s *api.Session) { s.ForkedFrom = new(api.ForkedFrom) }, false},
		"a policy with flushes":    {func(s *api.Session) { s.Policy.Name = "gsv" }, false},
		"a policy with settings":   {func(s *api.Session) { s.Policy.Set = turns.Raw(`{"x":1}`) }, false},
	} {
		s := past()
		tc.change(&s)
		if got := (&Scope{Since: since}).isPast(&s); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if s := past(); (&Scope{}).isPast(&s) {
		t.Error("without a bound a session is past")
	}
}
