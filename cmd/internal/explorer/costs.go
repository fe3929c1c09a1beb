package explorer

import (
	"context"
	"sync"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/ledger/api"
	"nexus/turns"
)

const (
	// costsKept bounds the sessions whose cost is kept.
	costsKept = 20_000
	// costWait is how long a page waits for costs; what was not added up by then the next view has.
	costWait = 700 * time.Millisecond
	// costTime bounds the work behind one page.
	costTime = 30 * time.Second
)

// costs keeps what sessions cost: each call has a price by its model, its size and where its tokens
// came from, so the sum of a session follows from its turns and not from its totals.
type costs struct {
	mu   sync.Mutex
	kept map[turns.ID]costKept
	busy bool // somebody adds up
}

// costKept is the cost of a session as it was.
type costKept struct {
	turns   uint64
	updated time.Time
	money   string
}

// get returns the cost of a session, false if it is not known as it is now.
func (k *costs) get(s *api.Session) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.kept[s.ID]
	return c.money, ok && c.turns == s.Turns && c.updated.Equal(time.Time(s.Updated))
}

func (k *costs) put(s *api.Session, money string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || len(k.kept) >= costsKept {
		k.kept = make(map[turns.ID]costKept)
	}
	k.kept[s.ID] = costKept{s.Turns, time.Time(s.Updated), money}
}

// begin reports whether nobody adds up; then the caller does, until it calls end.
func (k *costs) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	began := !k.busy
	k.busy = true
	return began
}

func (k *costs) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy = false
}

// addCosts gives rows the costs of their sessions.
func (v *visit) addCosts(rows []sessionRow, of []*api.Session) {
	v.addUp(of)
	for i, s := range of {
		rows[i].Cost, _ = v.costs.get(s)
	}
}

// costOf is what the own turns of a session cost, for people; "" if it is not known, or not yet.
func (v *visit) costOf(s *api.Session) string {
	v.addUp([]*api.Session{s})
	money, _ := v.costs.get(s)
	return money
}

// addUp adds up the costs that are not known, and returns after [costWait] at the latest: the rest
// is done behind it.
func (v *visit) addUp(of []*api.Session) {
	var todo []*api.Session
	for _, s := range of {
		if _, ok := v.costs.get(s); !ok && s.Error == "" {
			copied := *s
			todo = append(todo, &copied)
		}
	}
	if len(todo) == 0 || !v.costs.begin() {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer v.costs.end()
		ctx, cancel := context.WithTimeout(context.Background(), costTime)
		defer cancel()
		for _, s := range todo {
			a, err := cost.OfSession(ctx, v.c, s, v.Models)
			if err != nil {
				if ctx.Err() != nil { // too many turns: not again until it changes
					v.costs.put(s, "")
					return
				}
				continue // the session's own page says what is wrong with it
			}
			v.costs.put(s, moneyOf(&a))
		}
	}()
	t := time.NewTimer(costWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-v.r.Context().Done():
	}
}
