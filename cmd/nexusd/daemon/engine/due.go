package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// decision is whether the context of a session is to be compacted before its
// next call, and what that was decided on.
type decision struct {
	session *ledger.Session
	policy  policy.Policy
	path    view.Path     // its halves only where the policy needs them
	context *view.Context // nil: the path was not loaded
	load    view.Load
	budget  uint64
	trigger turns.Trigger
	due     bool
	flush   bool // due, and waits for the flush of its cycle
	fits    bool // the context as it is, in the budget
}

// seen is d where it holds the path of a session as s is, rendered; nil else.
func (d *decision) seen(s *ledger.Session) *decision {
	if d == nil || d.context == nil || d.session.ID != s.ID || d.session.Tail != s.Tail {
		return nil
	}
	return d
}

// decide says whether a compaction is due at a session's head. nil: the session
// takes none, or has no turn.
func (e *Engine) decide(ctx context.Context, c Caller, session turns.ID) (*decision, error) {
	s, err := e.row(ctx, c, session, true)
	if err != nil || s.Final() {
		return nil, err
	}
	d := &decision{session: s}
	_, set, err := e.inForce(ctx, s)
	if err != nil {
		return nil, err
	}
	head, err := e.headNode(s)
	if err != nil {
		return nil, err
	}
	g, pol, err := e.gauge(s, &set, head)
	if err != nil {
		return nil, err
	}
	if pol.Mode == policy.Manual || head.Ref.IsZero() {
		return nil, nil
	}
	d.policy, d.budget, d.path = pol, g.Budget, e.emptyPath(s, &set, pol, head)
	if d.load, err = e.load(s, g, head); err != nil {
		return nil, err
	}
	if plan.NeedsPath(pol, d.load) {
		if d.path, err = e.path(ctx, s, &set, pol, head); err != nil {
			return nil, err
		}
		cx, err := view.Render(d.path, d.path.Counter)
		if err != nil {
			return nil, err
		}
		g.Tokens, d.context, d.load = cx.Tokens, &cx, d.path.MeasureLoad(cx.Tokens)
	} else {
		d.load.Idle = e.idle(head)
	}
	if d.trigger, d.due = plan.DueAt(d.path, pol, d.load); d.due {
		d.flush, err = e.awaitsFlush(s, pol, d.path, d.load, d.trigger)
	}
	d.fits = pol.Unlimited(d.path.Limits) || plan.Fits(pol, d.path, g.Tokens, g.Budget)
	return d, err
}

// compactIfDue commits the compaction that the session's policy wants before
// the next call, if it wants one, and returns its turn. That there is nothing to
// gain is no error here. The decision is what was loaded for it.
//
// It waits for a model as long as the request says. In time: the model's summary.
// Else the request is answered from what there is, where that fits, and a tier that
// asks nobody makes the compaction where it does not; the model's goes on, and is
// rebased or dropped (invariant 9).
func (e *Engine) compactIfDue(ctx context.Context, c Caller, session turns.ID, wait time.Duration) (*turns.ID, *decision, error) {
	began := e.Now()
	d, err := e.decide(ctx, c, session)
	if err != nil || d == nil {
		return nil, nil, err
	}
	threshold := uint64(0)
	if e.traces(ctx) {
		threshold = plan.Threshold(d.path, d.policy)
	}
	ref, how, err := e.settle(ctx, c, d, wait)
	e.trace(ctx, "compaction decided", slog.Any("session", session), slog.Any("head", d.path.Head.Ref.Turn), slog.String("policy", d.policy.Name),
		slog.Uint64("version", d.policy.Version), slog.String("mode", string(d.policy.Mode)), slog.Bool("due", d.due), slog.String("trigger", d.trigger.Kind),
		slog.Uint64("tokens", d.load.Tokens), slog.Uint64("overhead", d.path.Overhead), slog.Uint64("reported", d.load.Reported),
		slog.Uint64("threshold", threshold), slog.Uint64("budget", d.budget), slog.Bool("fits", d.fits),
		slog.String("does", how), slog.Duration("took", e.Now().Sub(began)))
	if err != nil || ref.IsZero() {
		return nil, d, err
	}
	return &ref.Turn, d, nil
}

// settle does what a decision asks for. How is a word for the log.
func (e *Engine) settle(ctx context.Context, c Caller, d *decision, wait time.Duration) (ref turns.Ref, how string, err error) {
	session, head := d.session.ID, d.path.Head.Ref.Turn
	switch {
	case !d.due:
		return ref, "nothing", nil
	case d.flush:
		return ref, "wait for the flush", nil
	}
	waits := wait > 0 && e.asksModel()
	// In the background there is room between the trigger and the budget: the
	// request is answered from what there is, while the summary is made.
	early := d.policy.Mode == policy.Background && d.fits
	if early && e.inVain(session, head) {
		return ref, "paused", nil
	}
	if waits || early {
		if j := e.prepare(ctx, c, session, head, d.policy.MaxStrikes); j != nil && !waits {
			return ref, "background", nil
		} else if j != nil {
			d.context, d.path.Halves = nil, nil
			letGo(ctx)
			if j.wait(ctx, wait) && j.err == nil && !j.ref.IsZero() {
				return j.ref, "waited", nil
			}
			if d.fits {
				return ref, "waited in vain", nil
			}
		}
	}
	ref, err = e.compact(ctx, c, session, compaction{request: request{what: "compaction.run"}, ifDue: true, local: true, seen: d})
	switch {
	case errors.Is(err, api.ErrNothing):
		e.pause(ctx, c, session, head)
		return turns.Ref{}, "nothing to gain", nil
	case errors.Is(err, compactor.ErrFailed):
		// A policy that takes no notice for a summary goes on with what there is, as
		// long as it fits. The next call tries again.
		return turns.Ref{}, "no summary", nil
	}
	return ref, "at once", err
}

// compactInTime is a compaction that a request has to have: by all tiers if they
// are done within wait, else by those that ask nobody. Both have the request's id,
// so that one of them is stored.
func (e *Engine) compactInTime(ctx context.Context, c Caller, session turns.ID, k compaction, wait time.Duration) (ref turns.Ref, err error) {
	if wait > 0 && e.asksModel() && !c.Operator() {
		if k.request.id, err = e.newID(k.request.id); err != nil {
			return ref, err
		}
		j, err := e.compactLater(ctx, c, session, k)
		if errors.Is(err, ledger.ErrIDReused) {
			return ref, err
		}
		if err == nil && j.wait(ctx, wait) && (j.err == nil || errors.Is(j.err, api.ErrNothing)) {
			return j.ref, j.err
		}
	}
	k.local = true
	return e.compact(ctx, c, session, k)
}

// trace writes a line of the debug log: sizes and ids, never content.
func (e *Engine) trace(ctx context.Context, msg string, attrs ...slog.Attr) {
	if e.traces(ctx) {
		e.Logger.LogAttrs(ctx, slog.LevelDebug, msg, attrs...)
	}
}

// traces reports whether the debug log is kept.
func (e *Engine) traces(ctx context.Context) bool {
	return e.Logger != nil && e.Logger.Enabled(ctx, slog.LevelDebug)
}
