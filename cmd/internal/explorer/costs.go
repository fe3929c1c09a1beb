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
	// costTime bounds the work for one session, and the time after which the work for a page begins no other.
	costTime = 30 * time.Second
	// costShare is the part of the time for which a session that grows is added up again: one in so many.
	costShare = 20
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
	due     time.Time // when it may be added up again, if the session has grown or it failed
	failed  bool      // the newest try did; money is of before
}

// money returns the cost of a session as it was when it was added up last; "": it was not.
func (k *costs) money(s *api.Session) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[s.ID].money
}

// isDue reports whether a session is to be added up now.
func (k *costs) isDue(s *api.Session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.kept[s.ID]
	return !ok || (c.failed || c.turns != s.Turns || !c.updated.Equal(time.Time(s.Updated))) && time.Now().After(c.due)
}

// store keeps the cost of a session, which was added up since began.
func (k *costs) store(s *api.Session, money string, began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || len(k.kept) >= costsKept {
		k.kept = make(map[turns.ID]costKept)
	}
	now := time.Now()
	k.kept[s.ID] = costKept{turns: s.Turns, updated: time.Time(s.Updated), money: money, due: now.Add(costShare * now.Sub(began))}
}

// fail keeps that a session could not be added up, for [failedKept], and what it cost before.
func (k *costs) fail(s *api.Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || len(k.kept) >= costsKept {
		k.kept = make(map[turns.ID]costKept)
	}
	c := k.kept[s.ID]
	c.turns, c.updated, c.failed, c.due = s.Turns, time.Time(s.Updated), true, time.Now().Add(failedKept)
	k.kept[s.ID] = c
}

// failed returns when a session that could not be added up is tried again; zero: it could.
func (k *costs) failed(s *api.Session) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.kept[s.ID]; c.failed {
		return c.due
	}
	return time.Time{}
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
		rows[i].Cost = v.costs.money(s)
	}
}

// costOf is what the own turns of a session cost, for people; "" if it is not known, or not yet. That of a
// large session that grows is some seconds old.
func (v *visit) costOf(s *api.Session) string {
	v.addUp([]*api.Session{s})
	return v.costs.money(s)
}

// addUp adds up the costs that are not known, and returns after [costWait] at the latest: the rest
// is done behind it.
func (v *visit) addUp(of []*api.Session) {
	var todo []*api.Session
	for _, s := range of {
		if s.Error == "" && v.costs.isDue(s) {
			todo = append(todo, s)
		}
	}
	if len(todo) == 0 || !v.costs.begin() {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer v.costs.end()
		for end := time.Now().Add(costTime); len(todo) > 0 && time.Now().Before(end); todo = todo[1:] {
			v.addUpOne(todo[0])
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

// addUpOne adds up one session. Where that takes too long it is not tried again until the session changes.
func (v *visit) addUpOne(s *api.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), costTime)
	defer cancel()
	began := time.Now()
	switch a, err := cost.OfSession(ctx, v.c, s, v.Models); {
	case err == nil:
		v.costs.store(s, moneyOf(&a), began)
	case ctx.Err() != nil:
		v.costs.store(s, "", began)
	default:
		v.costs.fail(s)
	}
}
