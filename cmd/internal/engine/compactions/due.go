package compactions

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// verdict says when a compaction is made before the next call.
type verdict uint8

const (
	notDue        verdict = iota
	dueNow                // it is due
	dueAfterFlush         // it is due, and waits for the flush of its cycle
)

// Decision says whether the context of a session is compacted before its next call,
// and from what that was decided.
type Decision struct {
	session *ledger.Session
	policy  policy.Policy
	Path    view.Path     // without halves if the policy does not need them
	Context *view.Context // nil if the path was not loaded
	load    view.Load
	budget  uint64
	trigger turns.Trigger
	verdict verdict
	fits    bool // the context fits the budget without a compaction
}

// ReusableFor returns d if it has the rendered path of session s as s is now, nil
// otherwise.
func (d *Decision) ReusableFor(s *ledger.Session) *Decision {
	if d == nil || d.Context == nil || d.session.ID != s.ID || d.session.Tail != s.Tail {
		return nil
	}
	return d
}

// Decide says whether a compaction is due at a session's head. It returns nil if the
// session takes no compactions, or has no turn.
func (cm *Compactions) Decide(ctx context.Context, c reader.Caller, session turns.ID) (*Decision, error) {
	s, err := cm.reader.FindSession(ctx, c, session, true)
	if err != nil || s.Final() {
		return nil, err
	}
	d := &Decision{session: s}
	_, set, err := cm.reader.SettingsInForce(ctx, s)
	if err != nil {
		return nil, err
	}
	head, err := cm.reader.HeadNode(s)
	if err != nil {
		return nil, err
	}
	g, pol, err := cm.reader.Gauge(ctx, s, &set, head)
	if err != nil {
		return nil, err
	}
	if pol.Mode == policy.Manual || head.Ref.IsZero() {
		return nil, nil
	}
	d.policy, d.budget, d.Path = pol, g.Budget, cm.paths.EmptyPath(s, &set, pol, head)
	if d.load, err = cm.reader.ContextLoad(s, g, head); err != nil {
		return nil, err
	}
	if plan.NeedsPath(pol, d.load) {
		if d.Path, err = cm.paths.Load(ctx, s, &set, pol, head); err != nil {
			return nil, err
		}
		cx, err := cm.paths.Render(d.Path)
		if err != nil {
			return nil, err
		}
		g.Tokens, d.Context, d.load = cx.Tokens, &cx, d.Path.MeasureLoad(cx.Tokens)
	} else {
		d.load.Idle = cm.reader.IdleTime(head)
	}
	var isDue, waits bool
	if d.trigger, isDue = plan.DueAt(d.Path, pol, d.load); isDue {
		d.verdict = dueNow
		if waits, err = cm.awaitsFlush(s, pol, d.Path, d.load, d.trigger); waits {
			d.verdict = dueAfterFlush
		}
	}
	d.fits = pol.Unlimited(d.Path.Limits) || plan.Fits(pol, d.Path, g.Tokens, g.Budget)
	return d, err
}

// CompactIfDue commits the compaction that the session's policy wants before the
// next call, if any, and returns its turn. That there is nothing to gain is no
// error. The returned decision has the path that was loaded for it.
//
// It waits for a model as long as the request says, and takes the model's summary if
// it comes in time. If not, the request gets the context as it is, if that fits;
// otherwise a tier that asks no model makes the compaction, and the model's summary takes
// the place of that one when it comes.
func (cm *Compactions) CompactIfDue(ctx context.Context, c reader.Caller, session turns.ID, wait time.Duration) (*turns.ID, *Decision, error) {
	began := cm.reader.Now()
	d, err := cm.Decide(ctx, c, session)
	if err != nil || d == nil {
		return nil, nil, err
	}
	threshold := uint64(0)
	if cm.traces(ctx) {
		threshold = plan.Threshold(d.Path, d.policy)
	}
	ref, action, err := cm.act(ctx, c, d, wait)
	cm.Trace(ctx, "compaction decided", slog.Any("session", session), slog.Any("head", d.Path.Head.Ref.Turn), slog.String("policy", d.policy.Name),
		slog.Uint64("version", d.policy.Version), slog.String("mode", string(d.policy.Mode)), slog.Bool("due", d.verdict != notDue), slog.String("trigger", d.trigger.Kind),
		slog.Uint64("tokens", d.load.Tokens), slog.Uint64("overhead", d.Path.Overhead), slog.Uint64("reported", d.load.Reported),
		slog.Uint64("threshold", threshold), slog.Uint64("budget", d.budget), slog.Bool("fits", d.fits),
		slog.String("does", action), slog.Duration("took", cm.reader.Now().Sub(began)))
	if err != nil || ref.IsZero() {
		return nil, d, err
	}
	return &ref.Turn, d, nil
}

// act does what a decision asks for. action names it in the debug log.
func (cm *Compactions) act(ctx context.Context, c reader.Caller, d *Decision, wait time.Duration) (ref turns.Ref, action string, err error) {
	session, head := d.session.ID, d.Path.Head.Ref.Turn
	switch d.verdict {
	case notDue:
		return ref, "nothing", nil
	case dueAfterFlush:
		return ref, "wait for the flush", nil
	}
	waits := wait > 0 && compactor.AsksModel(d.policy, cm.paths.Tiers)
	// While the context fits, the request gets it as it is, and a worker makes the summary:
	// in mode background, and where a model writes the summaries. Parts are shortened at once.
	beside := cm.renews(d.policy) && !d.policy.Elide.On()
	fitsMeanwhile := d.fits && (d.policy.Mode == policy.Background || beside)
	if fitsMeanwhile && cm.IsBackedOff(session, head) {
		return ref, "paused", nil
	}
	if waits || fitsMeanwhile {
		if j := cm.prepare(ctx, c, session, head, d.policy.MaxStrikes); j != nil && !waits {
			return ref, "background", nil
		} else if j != nil {
			d.Context, d.Path.Halves = nil, nil
			request.Dropped(ctx)
			if j.wait(ctx, wait) && j.err == nil && !j.ref.IsZero() {
				return j.ref, "waited", nil
			}
			if d.fits {
				return ref, "waited without a summary", nil
			}
		} else if fitsMeanwhile && beside && !compactor.HasRules(d.policy, cm.paths.Tiers) && cm.hasWorkers(ctx) {
			return ref, "no worker has room", nil // a notice would be all
		}
	}
	ref, err = cm.Run(ctx, c, session, Spec{Request: writer.Request{Verb: "compaction.run"}, ifDue: true, Local: true, loaded: d})
	switch {
	case errors.Is(err, api.ErrNothing):
		cm.pause(ctx, c, session, head)
		return turns.Ref{}, "nothing to gain", nil
	case errors.Is(err, compactor.ErrFailed):
		// A policy that accepts no notice for a summary keeps the context as it is,
		// as long as that fits. The next call tries again, and meanwhile a model is asked.
		if !waits && cm.renews(d.policy) {
			cm.prepare(ctx, c, session, head, d.policy.MaxStrikes)
		}
		return turns.Ref{}, "no summary", nil
	}
	if err == nil && !ref.IsZero() && cm.renews(d.policy) {
		// The model's summary takes the place of the one by rules when it comes.
		cm.prepare(ctx, c, session, ref.Turn, d.policy.MaxStrikes)
	}
	return ref, "at once", err
}

// CompactInTime makes a compaction that a request must have: by all tiers if they
// end within wait, or else by those that ask no model. Both have the request's id,
// so only one of them is stored.
func (cm *Compactions) CompactInTime(ctx context.Context, c reader.Caller, session turns.ID, k Spec, wait time.Duration) (ref turns.Ref, err error) {
	if wait > 0 && cm.hasModelTier() && !c.Operator() {
		if k.Request.ID, err = cm.writer.NewID(k.Request.ID); err != nil {
			return ref, err
		}
		j, err := cm.enqueueRun(ctx, c, session, k)
		if errors.Is(err, ledger.ErrIDReused) {
			return ref, err
		}
		if err == nil && j.wait(ctx, wait) && (j.err == nil || errors.Is(j.err, api.ErrNothing)) {
			return j.ref, j.err
		}
	}
	k.Local = true
	return cm.Run(ctx, c, session, k)
}

// Trace writes a line to the debug log: sizes and ids, never content.
func (cm *Compactions) Trace(ctx context.Context, msg string, attrs ...slog.Attr) {
	if cm.traces(ctx) {
		cm.writer.Logger.LogAttrs(ctx, slog.LevelDebug, msg, attrs...)
	}
}

// traces reports whether the debug log is on.
func (cm *Compactions) traces(ctx context.Context) bool {
	return cm.writer.Logger != nil && cm.writer.Logger.Enabled(ctx, slog.LevelDebug)
}
