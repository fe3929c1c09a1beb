package costs

import (
	"context"
	"slices"
	"sync"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/explorer/visit"
	"nexus/ledger/api"
	"nexus/turns"
)

const (
	// costsKept bounds the sessions whose cost is kept.
	costsKept = 20_000
	// costWait is how long a page waits for costs; what was not added up by then the next view has.
	costWait = 700 * time.Millisecond
	// shortTurns is how many turns a session may have that a page waits for. Those of a longer one are read behind it.
	shortTurns = 1000
	// runningTurns bounds the turns of the longer sessions whose sums are kept, to be gone on with when the session grows:
	// a sum has up to 250 bytes for each turn, by which it knows a response that comes once more.
	runningTurns = 200_000
	// costTime bounds the work for one session, and the time after which the work for a page begins no other.
	costTime = 30 * time.Second
	// costShare is the part of the time for which a session that grows is added up again: one in so many.
	costShare = 20
)

// Costs keeps what sessions, and all calls, cost. Safe for concurrent use.
type Costs struct {
	sessions sessions
	sums     sums
	one      sums            // of single sessions: they wait for no reading of all, and push none out
	base     context.Context // of what goes on behind pages
}

// New returns what knows no cost yet. What goes on behind pages ends with base.
func New(base context.Context) *Costs { return &Costs{base: base} }

// sessions keeps what sessions cost: each call has a price by its model, its size and where its tokens
// came from, so the sum of a session follows from its turns and not from its totals.
type sessions struct {
	mu   sync.Mutex
	kept map[turns.ID]costKept
	busy bool // somebody adds up

	running []*running // of long sessions, the one that was read last at the end; of whoever adds up
}

// running is the sum of a long session.
type running struct {
	session turns.ID
	turns   uint64
	cost.Running
}

// runningOf returns the sum of a long session, to be gone on with. It forgets those that were not asked for the longest, until
// what is kept is bounded. The caller adds up, alone.
func (k *sessions) runningOf(s *api.Session) *cost.Running {
	x := &running{session: s.ID}
	if i := slices.IndexFunc(k.running, func(x *running) bool { return x.session == s.ID }); i >= 0 {
		x = k.running[i]
		k.running = slices.Delete(k.running, i, i+1)
	}
	x.turns = s.Turns
	k.running = append(k.running, x)
	all := uint64(0)
	for _, x := range k.running {
		all += x.turns
	}
	for ; all > runningTurns && len(k.running) > 1; k.running = slices.Delete(k.running, 0, 1) {
		all -= k.running[0].turns
	}
	return &x.Running
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
func (k *sessions) money(s *api.Session) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[s.ID].money
}

// isDue reports whether a session is to be added up now.
func (k *sessions) isDue(s *api.Session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.kept[s.ID]
	return !ok || (c.failed || c.turns != s.Turns || !c.updated.Equal(time.Time(s.Updated))) && time.Now().After(c.due)
}

// store keeps the cost of a session, which was added up since began.
func (k *sessions) store(s *api.Session, money string, began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || len(k.kept) >= costsKept {
		k.kept = make(map[turns.ID]costKept)
	}
	now := time.Now()
	k.kept[s.ID] = costKept{turns: s.Turns, updated: time.Time(s.Updated), money: money, due: now.Add(costShare * now.Sub(began))}
}

// fail keeps that a session could not be added up, for [failedKept], and what it cost before.
func (k *sessions) fail(s *api.Session) {
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
func (k *sessions) failed(s *api.Session) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.kept[s.ID]; c.failed {
		return c.due
	}
	return time.Time{}
}

// begin reports whether nobody adds up; then the caller does, until it calls end.
func (k *sessions) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	began := !k.busy
	k.busy = true
	return began
}

func (k *sessions) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy = false
}

// Of is what the own turns of a session cost, for people; "" if it is not known, or not yet. That of a
// large session that grows is some seconds old.
func (c *Costs) Of(v *visit.Visit, s *api.Session) string {
	c.AddUp(v, []*api.Session{s})
	return c.sessions.money(s)
}

// Money is what a session cost when it was added up last; "": it was not.
func (c *Costs) Money(s *api.Session) string { return c.sessions.money(s) }

// Failed returns when a session that could not be added up is tried again; zero: it could.
func (c *Costs) Failed(s *api.Session) time.Time { return c.sessions.failed(s) }

// AddUp adds up the costs that are not known. It waits for those of short sessions, for [costWait] at most: the rest
// is done behind it.
func (c *Costs) AddUp(v *visit.Visit, of []*api.Session) {
	var short, long []*api.Session
	for _, s := range of {
		switch {
		case s.Error != "" || !c.sessions.isDue(s):
		case isLong(s):
			long = append(long, s)
		default:
			short = append(short, s)
		}
	}
	if len(short)+len(long) == 0 || !c.sessions.begin() {
		return
	}
	waited := make(chan struct{})
	go func() {
		defer c.sessions.end()
		end := time.Now().Add(costTime)
		c.addUpAll(v, short, end)
		close(waited)
		c.addUpAll(v, long, end)
	}()
	t := time.NewTimer(costWait)
	defer t.Stop()
	select {
	case <-waited:
	case <-t.C:
	case <-v.R.Context().Done():
	}
}

// isLong reports whether no page waits for the cost of a session.
func isLong(s *api.Session) bool { return s.Turns+s.Compactions > shortTurns }

// IsAddingUp reports whether the newest cost of a session is being added up, or waits for others that are.
func (c *Costs) IsAddingUp(s *api.Session) bool { return s.Error == "" && c.sessions.isDue(s) }

// addUpAll adds up sessions, and begins no other one after end.
func (c *Costs) addUpAll(v *visit.Visit, of []*api.Session, end time.Time) {
	for _, s := range of {
		if time.Now().After(end) {
			return
		}
		c.addUpOne(v, s)
	}
}

// addUpOne adds up one session. A long one for which that takes too long is gone on with by the next view.
func (c *Costs) addUpOne(v *visit.Visit, s *api.Session) {
	ctx, cancel := context.WithTimeout(c.base, costTime)
	defer cancel()
	began := time.Now()
	var a cost.Amount
	var err error
	if isLong(s) {
		a, err = c.sessions.runningOf(s).Read(ctx, v.C, s, v.Models)
	} else {
		a, err = cost.OfSession(ctx, v.C, s, v.Models)
	}
	switch {
	case err == nil:
		c.sessions.store(s, MoneyOf(&a), began)
	case ctx.Err() == nil:
		c.sessions.fail(s)
	case !isLong(s):
		c.sessions.store(s, "", began)
	}
}
