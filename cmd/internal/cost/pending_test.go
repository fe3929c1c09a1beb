package cost

import (
	"testing"
	"time"

	"nexus/ledger/api"
	"nexus/turns"
)

// A request of /v1 without an answer is a call that may be billed, once it gets none any more: as long as it is the tip of
// its branch and no other branch begins there. It adds nothing to the calls that are kept.
func TestARequestWithoutAnAnswerIsCountedBesideTheCalls(t *testing.T) {
	now := time.Now()
	s := &api.Session{ID: api.NewID()}
	for name, tc := range map[string]struct {
		recorded time.Time
		meta     string
		begins   bool // a branch begins there
		want     uint64
	}{
		"an hour later":     {now.Add(-longestAnswer - time.Second), `{"responses":{"digest":"d"}}`, false, 1},
		"it may come":       {now.Add(-longestAnswer + time.Minute), `{"responses":{"digest":"d"}}`, false, 0},
		"of no request":     {now.Add(-2 * longestAnswer), `{}`, false, 0},
		"asked once more":   {now.Add(-2 * longestAnswer), `{"responses":{"digest":"d"}}`, true, 0},
		"two were lost too": {now.Add(-2 * longestAnswer), `{"responses":{"digest":"d","lost":2}}`, false, 3},
	} {
		r := newReading(nil, Scope{Now: now})
		turn := api.Turn{ID: api.NewID(), Session: s.ID, Depth: 1, Pending: true, Recorded: api.Time(tc.recorded), Meta: turns.Raw(tc.meta)}
		r.wanted[turn.ID] = tc.begins
		at := new(place)
		if err := r.turn(s, &api.Branch{Tip: turn.ID, From: 1}, &turn, turns.WorkContext{}, nil, at, newOwnCalls(s), func(Call) bool {
			t.Errorf("%s: it is among the calls", name)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		sum := NewSum(Options{})
		for _, c := range r.unanswered(at) {
			sum.Add(c)
		}
		if got := sum.Total(); got.Missing != tc.want || got.Calls != 0 {
			t.Errorf("%s: %+v, want %d answers that are missing", name, got, tc.want)
		}
	}
}
