package compactions

import (
	"context"
	"fmt"
	"time"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// What a compaction says of a flush that did not end. For a flush that ended it says its
// state.
const (
	flushExpired = "expired" // the agent began it, and its lease ended
	flushSkipped = "skipped" // no agent began it, or the compaction could not wait for it
)

// cycleFlush is the flush of the cycle that a head is in. It follows from the
// session's chain and the lineage.
type cycleFlush struct {
	turns.Flush // its last event; State 0 if it has none
	cycle       uint64
	after       turns.Ref // the compaction that the cycle began with
}

// flushAt returns the flush of the cycle that s is in when its head is at a node.
func (cm *Compactions) flushAt(s *ledger.Session, head lineage.Node) (f cycleFlush, err error) {
	forget, err := s.Ignores(head.Ref.Session, cm.reader.Projections.Session)
	if err != nil {
		return f, err
	}
	if f.cycle, f.after, err = lineage.Cycle(cm.reader.Projections, head, forget); err != nil {
		return f, err
	}
	f.Flush = s.FlushOf(f.cycle, f.after)
	return f, nil
}

// isRunning reports whether an agent began the flush and its lease is running.
func (f *cycleFlush) isRunning(now time.Time) bool {
	return f.State == turns.FlushBegun && now.UnixNano() < f.Lease
}

// canBegin reports whether an agent may begin the flush: none did, or one did and
// its lease ended.
func (f *cycleFlush) canBegin(now time.Time) bool {
	return f.State == 0 || (f.State == turns.FlushBegun && !f.isRunning(now) && f.Try < turns.MaxFlushTries)
}

// outcome returns what a compaction says of the flush.
func (f *cycleFlush) outcome(now time.Time) string {
	switch {
	case f.State == 0 || f.isRunning(now):
		return flushSkipped
	case f.State == turns.FlushBegun:
		return flushExpired
	}
	return f.State.String()
}

// FlushState returns what an ack and a context say of the flush. large is whether
// the context is large enough for one. The zero value means that the policy has no
// flush.
func (cm *Compactions) FlushState(s *ledger.Session, pol policy.Policy, head lineage.Node, large bool) (api.FlushState, error) {
	if !pol.Flush.On() {
		return api.FlushState{}, nil
	}
	f, err := cm.flushAt(s, head)
	return api.FlushState{Due: large && f.canBegin(cm.reader.Now()), Cycle: f.cycle}, err
}

// awaitsFlush reports whether a compaction of p that is due waits for the flush of
// its cycle: until it ended, or two leases did, and only while the whole context
// still fits its budget.
func (cm *Compactions) awaitsFlush(s *ledger.Session, pol policy.Policy, p view.Path, l view.Load, t turns.Trigger) (bool, error) {
	if !pol.Flush.On() || t.Kind != plan.TriggerThreshold || !plan.Fits(pol, p, l.Tokens, pol.Budget(p.Limits)) {
		return false, nil
	}
	f, err := cm.flushAt(s, p.Head)
	now := cm.reader.Now()
	return f.canBegin(now) || f.isRunning(now), err
}

// flushOutcome returns what a compaction at the head says of the flush of the cycle
// that it ends. It is "" if the policy has no flush, or the compaction ends no
// cycle.
func (cm *Compactions) flushOutcome(ctx context.Context, s *ledger.Session, head lineage.Node, span turns.Span) (string, error) {
	if span.Covered == 0 {
		return "", nil
	}
	pol, _, err := cm.reader.PolicyOf(ctx, s)
	if err != nil || !pol.Flush.On() {
		return "", err
	}
	f, err := cm.flushAt(s, head)
	return f.outcome(cm.reader.Now()), err
}

// BeginFlush is flush.begin. Of the agents that learn that a flush is due, one
// begins it. An agent may begin it before it is due, for a flush before a compaction
// that it asks for, or after an overflow.
//
// Crash states: before the commit nothing is stored; after it the flush is begun,
// and it expires when its lease ends.
func (cm *Compactions) BeginFlush(ctx context.Context, c reader.Caller, session turns.ID, req api.BeginFlush, canonical []byte) (*api.BegunFlush, error) {
	if req.Cycle == 0 {
		return nil, api.FieldErrorf("/cycle", "0; the first cycle is 1")
	}
	var out *api.BegunFlush
	err := cm.writer.Mutate(ctx, c, session, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := cm.writer.BeginEvent(s, writer.Request{ID: req.ID, Verb: "flush.begin", Canonical: canonical}, turns.KindFlush)
		if err != nil {
			return nil, err
		}
		pol, set, err := cm.reader.PolicyOf(ctx, s)
		if err != nil {
			return nil, err
		}
		if !done {
			if ev.Flush, err = cm.nextFlush(s, pol, req.Cycle); err != nil {
				return nil, err
			}
		}
		out = &api.BegunFlush{ID: ev.ID, Cycle: ev.Flush.Cycle, Try: ev.Flush.Try, Prompt: pol.Flush.Prompt, SilentToken: pol.Flush.SilentToken,
			Model: set.Model, Lease: api.UnixTime(ev.Flush.Lease), Duplicate: done}
		if done {
			out.Position = page.FormatPosition(s.Tail.Seq)
			return nil, nil
		}
		return &writer.Draft{Event: ev, After: func(seq uint64, _ turns.Hash) { out.Position = page.FormatPosition(seq) }}, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// nextFlush returns the flush that may begin at a session's head.
func (cm *Compactions) nextFlush(s *ledger.Session, pol policy.Policy, cycle uint64) (*turns.Flush, error) {
	if !pol.Flush.On() || s.Head.IsZero() {
		why := "the session has no turn yet"
		if !pol.Flush.On() {
			why = fmt.Sprintf("the session's policy, %s version %d, has no flush", pol.Name, pol.Version)
		}
		return nil, &api.Error{Code: api.Unprocessable, Message: why}
	}
	head, err := cm.reader.HeadNode(s)
	if err != nil {
		return nil, err
	}
	f, err := cm.flushAt(s, head)
	if err != nil {
		return nil, err
	}
	refuse := func(format string, args ...any) error {
		return &api.Error{Code: api.Conflict, Message: fmt.Sprintf(format, args...), Details: map[string]any{"cycle": f.cycle}}
	}
	now := cm.reader.Now()
	switch {
	case cycle != f.cycle:
		return nil, refuse("cycle is %d: the session is in cycle %d", cycle, f.cycle)
	case f.isRunning(now):
		return nil, refuse("the flush of cycle %d is under way, until %s", cycle, time.Unix(0, f.Lease).UTC().Format(time.RFC3339))
	case !f.canBegin(now):
		return nil, refuse("the flush of cycle %d was: %s", cycle, f.outcome(now))
	}
	lease := now.Add(time.Duration(pol.Flush.LeaseSeconds) * time.Second)
	return &turns.Flush{State: turns.FlushBegun, Cycle: f.cycle, After: f.after, Try: f.Try + 1, Lease: lease.UnixNano()}, nil
}

// DoneFlush is flush.done: how the agent's flush went. It stores the agent's reply,
// which no context and no list shows. A flush that ends after its lease counts, if
// nothing ended it before.
func (cm *Compactions) DoneFlush(ctx context.Context, c reader.Caller, session turns.ID, req api.DoneFlush, canonical []byte) (*api.EndedFlush, error) {
	if err := cm.checkDone(&req); err != nil {
		return nil, err
	}
	var out *api.EndedFlush
	err := cm.writer.Mutate(ctx, c, session, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := cm.writer.BeginEvent(s, writer.Request{ID: req.ID, Verb: "flush.done", Canonical: canonical}, turns.KindFlush)
		if err != nil {
			return nil, err
		}
		body := &turns.FlushBody{Saved: req.Saved, Error: req.Error}
		if !done {
			pol, _, err := cm.reader.PolicyOf(ctx, s)
			if err != nil {
				return nil, err
			}
			f, err := begunFlush(s, req.Cycle)
			if err != nil {
				return nil, err
			}
			f.State, f.Lease = turns.FlushDone, 0
			switch {
			case req.Error != "":
				f.State = turns.FlushFailed
			case pol.Flush.On() && pol.Flush.Silent(req.Response):
				f.State = turns.FlushSilent
			}
			if f.State != turns.FlushSilent {
				body.Response = req.Response
			}
			ev.Flush, ev.Usage = f, req.Usage
		}
		out = &api.EndedFlush{ID: ev.ID, Cycle: ev.Flush.Cycle, State: ev.Flush.State.String(), Duplicate: done}
		if done {
			out.Position = page.FormatPosition(s.Tail.Seq)
			return nil, nil
		}
		return &writer.Draft{Event: ev, Body: body, After: func(seq uint64, _ turns.Hash) { out.Position = page.FormatPosition(seq) }}, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkDone checks the sizes in a request.
func (cm *Compactions) checkDone(req *api.DoneFlush) error {
	if req.Cycle == 0 {
		return api.FieldErrorf("/cycle", "0; the first cycle is 1")
	}
	if req.Saved > turns.MaxCount {
		return api.FieldErrorf("/saved", "%d is over %d", req.Saved, uint64(turns.MaxCount))
	}
	if err := turns.ValidateUsage("/usage", req.Usage); err != nil {
		return err
	}
	if err := page.CheckText("/response", req.Response, cm.page.SummaryBytes()); err != nil {
		return err
	}
	return page.CheckText("/error", req.Error, cm.page.TextBytes())
}

// begunFlush returns the flush of a cycle that was begun and not ended. The cycle
// may be over, if the compaction that ended it could not wait.
func begunFlush(s *ledger.Session, cycle uint64) (*turns.Flush, error) {
	var ended turns.FlushState
	for _, f := range s.Flushes {
		switch {
		case f.Cycle == cycle && f.State == turns.FlushBegun:
			return &f, nil
		case f.Cycle == cycle && ended == 0:
			ended = f.State
		}
	}
	if ended == 0 {
		return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("no flush of cycle %d was begun", cycle)}
	}
	return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("the flush of cycle %d has ended: %s", cycle, ended)}
}
