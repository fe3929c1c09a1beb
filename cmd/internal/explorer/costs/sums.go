package costs

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/explorer/visit"
	"nexus/ledger/api"
	"nexus/turns"
)

const (
	// sumWait is how long pages wait for a reading of all calls, since it began; they show the one before, or
	// how far this one is. Who comes later waits for nothing: it takes long.
	sumWait = 300 * time.Millisecond
	// sumTime bounds a reading.
	sumTime = 10 * time.Minute
	// sumsKept bounds the readings that are kept.
	sumsKept = 16
	// sumShare is for how long a reading counts, in the time that it took: a ledger that is large
	// is not read all the time.
	sumShare, sumLeast = 5, time.Second
	// failedKept is for how long a reading that failed is not begun again.
	failedKept = time.Minute
)

// costKeys are what the page of costs adds calls up by. One reading does it for each.
var costKeys = []cost.Key{cost.ByDay, cost.ByWeek, cost.ByMonth, cost.ByModel, cost.ByProject, cost.BySession, cost.ByKind}

// dearest is how many of the dearest calls a page lists, dearestOfOne how many of one session.
const dearest, dearestOfOne = 10, 40

// sums keeps what all calls cost. Their prices follow from each call, so all turns are read, which
// takes a large ledger longer than a page may: a page never waits for it, and shows the sums of
// the reading before. Safe for concurrent use.
type sums struct {
	mu   sync.Mutex
	of   map[sumScope]*reading
	turn sync.Mutex // one reads at a time
}

// sumScope is whose calls are read, since when, and of which session; zero: of all.
type sumScope struct {
	tenant, agent, since string
	session              turns.ID
}

// reading is what is known of a scope.
type reading struct {
	done    *added // the newest that is whole; nil: none yet
	running *added // the one under way; nil: none
	failed  *added // the newest, if it failed; nil: it did not
}

// added is one reading of calls. All but calls is written before ended is closed, and read behind it.
type added struct {
	began time.Time
	calls atomic.Uint64 // so far
	ended chan struct{}

	took  time.Duration // until it ended
	sums  map[cost.Key]*cost.Sum
	found *cost.Found
	err   error
}

// get returns the newest sums of a scope, nil if there are none; begins to read where they are old; and waits for it, until [sumWait]
// after its begin. running is the reading under way, failed one that is not begun again before [added.retry]; with neither, done is of now.
func (k *sums) get(ctx context.Context, scope sumScope, read func(*added)) (done, running, failed *added) {
	k.mu.Lock()
	r := k.of[scope]
	if r == nil {
		r = new(reading)
		if k.of == nil {
			k.of = make(map[sumScope]*reading)
		}
		if k.of[scope] = r; len(k.of) > sumsKept {
			k.drop(scope)
		}
	}
	if f := r.failed; f != nil && time.Now().Before(f.retry()) {
		k.mu.Unlock()
		return r.done, nil, f
	}
	if d := r.done; d != nil && time.Since(d.began) < max(sumLeast, sumShare*d.took) {
		k.mu.Unlock()
		return d, nil, nil
	}
	if r.running == nil {
		r.running = &added{began: time.Now(), ended: make(chan struct{})}
		go k.run(r, r.running, read)
	}
	running = r.running
	k.mu.Unlock()
	t := time.NewTimer(sumWait - time.Since(running.began))
	defer t.Stop()
	select {
	case <-running.ended:
	case <-t.C:
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.running == running {
		return r.done, running, nil
	}
	return r.done, nil, r.failed
}

// run reads, and keeps what came of it.
func (k *sums) run(r *reading, a *added, read func(*added)) {
	k.turn.Lock()
	read(a)
	k.turn.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	a.took = time.Since(a.began)
	if r.running, r.failed = nil, nil; a.err == nil {
		r.done = a
	} else {
		r.failed = a
	}
	close(a.ended)
}

// end is when a reading ended, retry when one that failed may be begun again.
func (a *added) end() time.Time   { return a.began.Add(a.took) }
func (a *added) retry() time.Time { return a.end().Add(failedKept) }

// newest is when the newest reading of a scope began that ended.
func (r *reading) newest() time.Time {
	var at time.Time
	for _, a := range []*added{r.done, r.failed} {
		if a != nil && a.began.After(at) {
			at = a.began
		}
	}
	return at
}

// drop forgets the oldest scope that nobody reads, but not keep. k.mu is locked.
func (k *sums) drop(keep sumScope) {
	var idle []sumScope
	for s, r := range k.of {
		if s != keep && r.running == nil {
			idle = append(idle, s)
		}
	}
	if len(idle) > 0 {
		delete(k.of, slices.MinFunc(idle, func(a, b sumScope) int {
			return k.of[a].newest().Compare(k.of[b].newest())
		}))
	}
}

// addAll reads the calls since a time, and adds them up by each key; of one session if it is not nil.
func (c *Costs) addAll(v *visit.Visit, since time.Time, of *api.Session) func(*added) {
	return func(a *added) {
		ctx, cancel := context.WithTimeout(c.base, sumTime)
		defer cancel()
		a.sums = make(map[cost.Key]*cost.Sum)
		for i, by := range costKeys {
			o := cost.Options{By: []cost.Key{by}, Models: v.Models, Zone: time.Local, Since: since}
			if i == 0 { // the dearest calls are those of all
				if o.Dearest = dearest; of != nil {
					o.Dearest = dearestOfOne
				}
			}
			a.sums[by] = cost.NewSum(o)
		}
		var found *cost.Found
		var calls iter.Seq2[cost.Call, error]
		if of != nil {
			found, calls = cost.ReadOne(ctx, v.C, of)
		} else {
			found, calls = cost.Read(ctx, v.C, cost.Scope{Since: since, Now: v.Now()})
		}
		for call, err := range calls {
			if err != nil {
				if a.err = err; c.base.Err() == nil && ctx.Err() != nil {
					a.err = api.Errorf(api.Unavailable, nil, "the calls of this ledger take more than %v to read; ledgerctl cost has no such bound", sumTime)
				}
				return
			}
			for s := range maps.Values(a.sums) {
				s.Add(call)
			}
			a.calls.Add(1)
		}
		a.found = found
	}
}
