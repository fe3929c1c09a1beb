package cost

import (
	"context"
	"time"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Running is what the own turns of one session used and cost, while the session grows: [Running.Read] reads the
// turns that came since the read before. The zero value has read nothing. Not safe for concurrent use.
type Running struct {
	sum      *Sum // nil: nothing was read
	own      *ownCalls
	places   map[turns.ID]*place // by the first turn of a branch
	contexts map[turns.ID]turns.WorkContext
	// end is the hash of an event of the session. Invariant: all turns up to it are added up, or are behind the
	// place of their branch.
	end turns.Hash
}

// Read returns what [OfSession] returns for s, a session as it is now, which is the same one in each read. After an
// error, such as that of a context that ended, the next read goes on with what was read.
//
// Turns never change, but what is stored beside them may: a part is taken out, usage is found late, the head
// moves. Then the events behind the last read are not turns alone, and all turns are read anew.
func (r *Running) Read(ctx context.Context, c *client.Client, s *api.Session, models tokens.Models) (Amount, error) {
	for {
		a, follows, err := r.read(ctx, c, s, models)
		if follows || err != nil {
			return a, err
		}
		*r = Running{}
	}
}

// read adds up the turns behind the last read. follows reports whether nothing but turns was stored since then. It
// is true for the first read.
func (r *Running) read(ctx context.Context, c *client.Client, s *api.Session, models tokens.Models) (a Amount, follows bool, err error) {
	rd := newReading(c, Scope{Sessions: []turns.ID{s.ID}, Now: time.Now()})
	rd.counted = nil
	t, err := rd.tree(ctx, s)
	if isErased(err) {
		*r = Running{}
		return Amount{WithoutUsage: 1}, true, nil
	}
	if err != nil {
		return a, false, err
	}
	if r.sum == nil {
		*r = Running{sum: NewSum(Options{Models: models}), own: newOwnCalls(s), places: make(map[turns.ID]*place), contexts: make(map[turns.ID]turns.WorkContext), end: s.Hash}
		for i := range t.Branches {
			r.places[t.Branches[i].Segment] = new(place)
		}
	}
	for i := range t.Branches {
		if r.places[t.Branches[i].Segment] == nil { // a new branch; or the only one, which has no name before the first compaction
			return a, false, nil
		}
	}
	for i := range t.Branches {
		if p := t.Branches[i].Parent; p != nil {
			rd.wanted[*p] = true
		}
	}
	rd.contexts = r.contexts
	follows = r.end == s.Hash
	rd.passed = func(t *api.Turn) {
		if t.PrevHash == r.end {
			r.end = t.Hash
			follows = follows || r.end == s.Hash
		}
	}
	extra := NewSum(Options{Models: models}) // of this read alone
	for i := range t.Branches {
		b := &t.Branches[i]
		at := r.places[b.Segment]
		err := rd.branch(ctx, s, b, at, r.own, func(c Call) bool { r.sum.Add(c); return true })
		if err != nil && !isErased(err) {
			return a, false, err
		}
		if err != nil {
			rd.found.Unread++
		}
		for _, call := range rd.unanswered(at) {
			extra.Add(call)
		}
	}
	if n := turns.UncountedCalls(s.Meta); n > 0 {
		extra.Add(uncounted(s, n))
	}
	if call, ok := r.own.flushes(s); ok && !r.own.isPartial && rd.found.Unread == 0 && t.BranchCount <= uint64(len(t.Branches)) {
		extra.Add(call)
	}
	a = r.sum.Total()
	more := extra.Total()
	a.add(&more)
	a.WithoutUsage += rd.found.Unread
	if rd.found.Unread > 0 { // it may be readable later
		*r = Running{}
	}
	return a, follows, nil
}
