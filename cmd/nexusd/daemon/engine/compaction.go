package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/tokens"
)

// compaction is one compaction to be made on a session.
type compaction struct {
	request request
	policy  *api.Policy
	trigger turns.Trigger
	opts    plan.Options
	ifDue   bool      // only if the policy's own trigger says so
	local   bool      // a request waits: only by tiers that ask nobody
	seen    *decision // what the request has loaded; may be nil
}

// Compact is compaction.run.
func (e *Engine) Compact(ctx context.Context, c Caller, session turns.ID, req api.RunCompaction, canonical []byte) (*api.CompactionRun, error) {
	if err := fitsWord("/focus", req.Focus, e.wordBytes()); err != nil {
		return nil, err
	}
	if req.DryRun || !req.At.IsZero() {
		plan, err := e.preview(ctx, c, session, req)
		if err != nil {
			return nil, err
		}
		if !req.DryRun {
			return nil, fieldErr("/at", "a compaction is committed at the head; at goes with dry_run")
		}
		return &api.CompactionRun{Plan: planView(plan), State: "planned"}, nil
	}
	k := compaction{
		request: request{id: req.ID, what: "compaction.run", canonical: canonical}, policy: req.Policy,
		trigger: turns.Trigger{Kind: "manual"}, opts: plan.Options{Focus: req.Focus, FromOriginals: req.FromOriginals},
	}
	var ref turns.Ref
	var err error
	if e.asksModel() {
		if ref, err = e.runLater(ctx, c, session, &k, req.WaitMS); err == nil && ref.IsZero() {
			return &api.CompactionRun{ID: k.request.id, State: "running"}, nil
		}
	} else {
		ref, err = e.compact(ctx, c, session, k)
	}
	if err != nil {
		return nil, err
	}
	t, err := e.GetTurn(ctx, c, session, api.GetTurn{ID: ref.Turn})
	if err != nil {
		return nil, written(err)
	}
	return &api.CompactionRun{Compaction: t, State: "done"}, nil
}

// runLater makes a compaction that asks a model. The zero Ref: it goes on
// under its id, and the same request again tells how it ended.
func (e *Engine) runLater(ctx context.Context, c Caller, session turns.ID, k *compaction, waitMS int) (turns.Ref, error) {
	if c.Operator() {
		return turns.Ref{}, &api.Error{Code: api.Denied, Message: "the operator reads all agents and changes nothing; name the session's agent"}
	}
	var err error
	if k.request.id, err = e.newID(k.request.id); err != nil {
		return turns.Ref{}, err
	}
	s, err := e.row(ctx, c, session, true)
	if err != nil {
		return turns.Ref{}, err
	}
	if ref, err := e.submitted(s, k.request); err != nil || !ref.IsZero() {
		return ref, err
	}
	j, err := e.requested(ctx, session, k.request)
	if err != nil {
		return turns.Ref{}, err
	}
	if j == nil {
		// What is refused is refused now.
		w, err := e.planCompaction(ctx, c, session, *k)
		if err != nil || !w.stored.IsZero() {
			return w.stored, err
		}
		if j, err = e.compactLater(ctx, c, session, *k); err != nil {
			return turns.Ref{}, err
		}
	}
	return e.await(ctx, j, waitOf(waitMS))
}

// compact plans on the head, summarizes without holding the session, and
// commits by compare-and-set. When the session went on meanwhile, the plan is
// rebased if that is legal (invariant 9), and made anew if it is not.
//
// Crash states: before the commit nothing is written; after it the compaction
// is there whole.
func (e *Engine) compact(ctx context.Context, c Caller, session turns.ID, k compaction) (turns.Ref, error) {
	e.countAppend(ctx)
	began, started, ended := e.Now(), false, false
	var lost lostSummary
	defer func() { // also where a defect ends it
		if started && !ended {
			e.notify(c, session, "compaction.failed", turns.ID{}, "", lost.details())
			e.Metrics.summarized("lost", lost.usage, lost.cost)
		}
	}()
	for try := 0; try < 5; try++ {
		w, err := e.planCompaction(ctx, c, session, k)
		if err != nil || !w.stored.IsZero() || w.plan == nil {
			ended = !w.stored.IsZero() // by another daemon, which has told so
			return w.stored, err
		}
		if !started {
			started = true
			e.notify(c, session, "compaction.started", turns.ID{}, "", map[string]any{
				"messages_count": w.path.MeasureLoad(0).Messages, "targets_count": w.plan.Targets(), "force": w.plan.Trigger.Kind == plan.TriggerOverflow})
		}
		progress := func(done, all int) {
			e.notify(c, session, "compaction.progress", turns.ID{}, "", map[string]any{"parts_done": done, "parts": all})
		}
		tiers := compactor.ForModel(e.Tiers, w.policy.SummaryModels(w.model)...)
		if k.local {
			tiers = local(tiers)
		}
		res, err := compactor.Run(ctx, w.plan, tiers, w.path.Counter, progress)
		lost.add(res)
		if err != nil {
			return turns.Ref{}, planError(err)
		}
		// What was paid in vain before it is paid for this one.
		res.Usage, res.Body.CostMicros = lost.usage, lost.cost
		res.Body.DurationMS = uint64(e.Now().Sub(began) / time.Millisecond)
		ref, at, err := e.commitCompaction(ctx, c, session, k, w, res)
		if errors.Is(err, plan.ErrStale) {
			continue
		}
		if err == nil {
			ended = true
			if at == "" {
				return ref, nil // by another daemon, which has told so
			}
			e.Metrics.compacted(res.Body.Tier, e.Now().Sub(began))
			e.Metrics.summarized("kept", res.Usage, res.Body.CostMicros)
			e.notifyApplied(c, session, ref, at, w.plan, res)
			e.trace(ctx, "compaction", slog.Any("session", session), slog.Any("id", ref.Turn), slog.String("trigger", res.Body.Trigger.Kind),
				slog.String("mode", res.Body.Mode), slog.String("tier", res.Body.Tier), slog.String("model", res.Body.Model), slog.Int("tiers_failed", len(res.Tried)),
				slog.Uint64("tokens_before", res.Body.TokensBefore), slog.Uint64("tokens_after", res.Body.TokensAfter),
				slog.Int("targets", w.plan.Targets()), slog.Int("try", try+1), slog.Duration("took", e.Now().Sub(began)))
		}
		return ref, err
	}
	return turns.Ref{}, fmt.Errorf("%w: the session kept moving while it was compacted", ledger.ErrUnavailable)
}

// lostSummary is what summarizers of tries used so far, which no compaction has yet.
type lostSummary struct {
	usage *turns.Usage
	cost  uint64 // micro-dollars
}

func (l *lostSummary) add(res compactor.Result) {
	l.usage, l.cost = turns.AddUsage(l.usage, res.Usage), l.cost+res.Body.CostMicros
}

// details is what a notification tells of it; nil where nothing was used.
func (l *lostSummary) details() map[string]any {
	if l.usage == nil && l.cost == 0 {
		return nil
	}
	return map[string]any{"usage": l.usage, "cost_micros": l.cost}
}

// planned is a plan, and what it was made on.
type planned struct {
	plan   *plan.Plan
	policy policy.Policy
	ref    turns.PolicyRef
	model  string // of the session
	path   view.Path
	seen   []turns.ID // sessions that the summarizer saw text of, other than those it reads
	stored turns.Ref  // the request was stored before
}

func (e *Engine) planCompaction(ctx context.Context, c Caller, session turns.ID, k compaction) (w planned, err error) {
	s, err := e.row(ctx, c, session, true)
	if err != nil {
		return w, err
	}
	if !k.request.id.IsZero() {
		digest, err := e.digest(s.ID, k.request)
		if err != nil {
			return w, err
		}
		if ev, err := e.stored(s, k.request, digest); ev != nil || err != nil {
			if ev != nil {
				w.stored = ev.Ref()
			}
			return w, err
		}
	}
	if err := takes(s); err != nil {
		return w, err
	}
	head, err := e.headNode(s)
	if err != nil {
		return w, err
	}
	return e.planAt(ctx, s, head, k)
}

func (e *Engine) planAt(ctx context.Context, s *ledger.Session, head lineage.Node, k compaction) (w planned, err error) {
	_, set, err := e.inForce(ctx, s)
	if err != nil {
		return w, err
	}
	w.ref, w.model = set.Policy, set.Model
	if k.policy != nil {
		w.ref = turns.PolicyRef{Name: k.policy.Name, Set: k.policy.Set}
	}
	if w.policy, err = policy.Resolve(w.ref); err != nil {
		return w, err
	}
	w.ref.Digest = w.policy.Digest()
	seen := k.seen.seen(s)
	if k.policy != nil || seen == nil || seen.path.Head != head {
		seen = nil
		if w.path, err = e.path(ctx, s, &set, w.policy, head); err != nil {
			return w, err
		}
	} else {
		w.path = seen.path
	}
	trigger := k.trigger
	if k.ifDue {
		cx := new(view.Context)
		if seen != nil {
			cx = seen.context
		} else if *cx, err = view.Render(w.path, w.path.Counter); err != nil {
			return w, err
		}
		var due bool
		l := w.path.MeasureLoad(cx.Tokens)
		if trigger, due = plan.DueAt(w.path, w.policy, l); !due {
			return w, nil
		}
		if waits, err := e.awaitsFlush(s, w.policy, w.path, l, trigger); waits || err != nil {
			return w, err
		}
	}
	if k.opts.FromOriginals {
		if k.opts.Originals, err = e.halves(ctx, s, head, 0); err != nil {
			return w, err
		}
	}
	w.plan, err = plan.New(w.path, w.policy, trigger, k.opts)
	return w, planError(err)
}

// planError is an error of planning or summarizing as the contract names it.
func planError(err error) error {
	switch {
	case errors.Is(err, compactor.ErrFailed):
		return failedError{&api.Error{Code: api.Unavailable, Message: strings.ReplaceAll(err.Error(), "\n", "; "), Details: map[string]any{"on_failure": "fail"}}}
	case errors.Is(err, plan.ErrNothing):
		return &api.Error{Code: api.Nothing, Message: err.Error()}
	case errors.Is(err, plan.ErrOverhead):
		out := &api.Error{Code: api.Unprocessable, Message: err.Error()}
		var b *plan.BudgetError
		if errors.As(err, &b) {
			out.Details = map[string]any{"overhead": b.Overhead, "protected": b.Protected, "budget": b.Budget}
		}
		return out
	}
	return err
}

// failedError is [compactor.ErrFailed] as the contract names it.
type failedError struct{ error }

func (f failedError) Unwrap() []error { return []error{f.error, compactor.ErrFailed} }

// commitCompaction stores a compaction, and returns its name and position; the
// position is "" where the same request stored it before.
func (e *Engine) commitCompaction(ctx context.Context, c Caller, session turns.ID, k compaction, w planned, res compactor.Result) (ref turns.Ref, at string, err error) {
	err = e.mutate(ctx, c, session, func(_ *chain, s *ledger.Session) (*draft, error) {
		ev, done, err := e.begin(s, k.request, turns.KindCompaction)
		if done || err != nil {
			if ev != nil {
				ref = ev.Ref()
			}
			return nil, err
		}
		head, err := e.headNode(s)
		if err != nil {
			return nil, err
		}
		if head.Ref != w.path.Head.Ref {
			if res, err = e.rebase(ctx, s, head, w, res); err != nil {
				return nil, err
			}
		}
		body := res.Body
		body.Policy = w.ref
		if body.Flush, err = e.flushBecame(ctx, s, head, res.Span); err != nil {
			return nil, err
		}
		saved := w.path.Saves(res.Span, &res.Body, e.Counter)
		d, err := e.draftCompaction(s, head, ev, res.Span, saved, res.Usage, &body, w.plan.Reads, &ref)
		if err == nil {
			d.keys = append(d.keys, w.seen...)
			d.after = func(seq uint64, _ turns.Hash) { at = position(seq) }
		}
		return d, err
	})
	return ref, at, err
}

// rebase carries a summary that was made on an older head to the head of now.
func (e *Engine) rebase(ctx context.Context, s *ledger.Session, head lineage.Node, w planned, res compactor.Result) (compactor.Result, error) {
	_, set, err := e.inForce(ctx, s)
	if err != nil {
		return res, err
	}
	now, err := e.path(ctx, s, &set, w.policy, head)
	if err != nil {
		return res, err
	}
	old, err := lineage.IsAncestor(e.Store, w.path.Head, head)
	if err != nil {
		return res, err
	}
	if !old {
		return res, plan.ErrStale
	}
	plan, err := w.plan.Rebase(now)
	if err != nil {
		return res, err
	}
	return compactor.Resize(plan, res), nil
}

// draftCompaction drafts the event of a compaction at the head.
func (e *Engine) draftCompaction(s *ledger.Session, head lineage.Node, ev *turns.Event, span turns.Span, saved uint64, usage *turns.Usage, body *turns.CompactionBody, covered []summary.HalfTurn, ref *turns.Ref) (*draft, error) {
	t, err := e.Store.Turn(head.Ref)
	if err != nil {
		return nil, err
	}
	ev.Parent, ev.Depth, ev.Segment = s.Head, head.Depth+1, s.SegmentFor(ev.ID, s.Head)
	ev.Open, ev.Usage, ev.Span = t.Open, usage, &span
	forget, err := s.Ignores(s.Head.Session, e.Store.Session)
	if err != nil {
		return nil, err
	}
	if !forget {
		span.Previous = head.Compaction
	}
	ev.Tokens = turns.Tokens{Counter: e.Counter.Name(),
		Messages: tokens.Messages(e.Counter, body.Replacement) + tokens.Messages(e.Counter, body.Nudge), Response: saved}
	var previous []turns.ID
	if !span.Previous.IsZero() {
		if previous, err = e.keysOf(span.Previous); err != nil {
			return nil, err
		}
	}
	*ref = turns.Ref{Session: s.ID, Turn: ev.ID}
	return &draft{event: ev, body: body, head: head, keys: sealers(s, covered, previous)}, nil
}

// preview plans a compaction and writes nothing.
func (e *Engine) preview(ctx context.Context, c Caller, session turns.ID, req api.RunCompaction) (*plan.Plan, error) {
	s, head, err := e.headOf(ctx, c, session, req.At, api.Read{})
	if err != nil {
		return nil, err
	}
	w, err := e.planAt(ctx, s, head, compaction{policy: req.Policy, trigger: turns.Trigger{Kind: "manual"},
		opts: plan.Options{Focus: req.Focus, FromOriginals: req.FromOriginals}})
	return w.plan, err
}

func planView(p *plan.Plan) *api.Plan {
	v := &api.Plan{
		Digest: p.Digest, Policy: p.Policy.Name, Trigger: p.Trigger, Split: p.Span.Split, Covered: p.Span.Covered,
		Kept: uint64(len(p.Kept)), TokensBefore: p.TokensBefore, TokensTarget: p.TargetTokens, SummaryMax: p.SummaryTokens,
	}
	v.TokensKept = p.TokensKept
	if p.Kind != plan.Cover {
		v.Shortened = uint64(len(p.Elided))
	}
	if r := p.Span.Through; !r.IsZero() {
		v.Through = &r.Turn
	}
	if r := p.Span.FirstKept; !r.IsZero() {
		v.FirstKept = &r.Turn
	}
	return v
}

// ListCompactions is compaction.list: those on the path of the head, newest first.
func (e *Engine) ListCompactions(ctx context.Context, c Caller, session turns.ID, req api.ListCompactions) (*api.TurnList, error) {
	s, head, err := e.headOf(ctx, c, session, turns.ID{}, req.Read)
	if err != nil {
		return nil, err
	}
	limit, err := req.Page.LimitOf(100, 1000)
	if err != nil {
		return nil, err
	}
	cur, err := e.cursor(s, head, req.After, true)
	if errors.Is(err, ledger.ErrNotFound) {
		err = fieldErr("/after", "not a compaction of this list")
	}
	if err != nil {
		return nil, err
	}
	out := &api.TurnList{Turns: []api.Turn{}}
	if head = cur.head; head.Ref.IsZero() {
		return out, nil
	}
	if head.Compaction, err = e.inForceAt(s, head); err != nil {
		return nil, err
	}
	size := 0
	for n, err := range lineage.Compactions(e.Store, head) {
		if err != nil {
			return nil, err
		}
		if n.Depth > cur.hi {
			continue
		}
		if len(out.Turns) == limit {
			out.Next = cur.next(out.Turns[limit-1].Depth)
			break
		}
		t, ev, err := e.turnEvent(n.Ref)
		if err != nil {
			return nil, err
		}
		v, k, err := e.listedTurn(t, ev, true)
		if err != nil {
			return nil, err
		}
		if size += k; len(out.Turns) > 0 && size > e.pageBytes() {
			out.Next = cur.next(out.Turns[len(out.Turns)-1].Depth)
			break
		}
		out.Turns = append(out.Turns, *v)
	}
	return out, nil
}

// Expand is compaction.expand: the turns that a compaction stands for. One
// level: those it covered itself, behind the compaction that its summary
// includes. All levels: every normal turn before its cut.
func (e *Engine) Expand(ctx context.Context, c Caller, session turns.ID, req api.ExpandCompaction) (*api.TurnList, error) {
	all := false
	switch l := string(req.Levels); l {
	case "", "1":
	case `"all"`:
		all = true
	default:
		return nil, fieldErr("/levels", "%.20s is not one of 1, \"all\"", l)
	}
	if err := e.ready(ctx, req.Read); err != nil {
		return nil, err
	}
	n, err := e.locate(ctx, c, session, req.ID, req.Read)
	if err != nil {
		return nil, err
	}
	if n.Kind != turns.KindCompaction {
		return nil, &api.Error{Code: api.Unprocessable, Message: fmt.Sprintf("turn %s is not a compaction", req.ID)}
	}
	limit, err := req.Page.LimitOf(100, 10_000)
	if err != nil {
		return nil, err
	}
	lo, err := e.expandFrom(n, all, req.After)
	if err != nil || lo == 0 {
		return &api.TurnList{Turns: []api.Turn{}}, err
	}
	hi := n.Cut.Depth() // a cut of 0 covers nothing
	if !n.Cut.Split() && hi > 0 {
		hi--
	}
	out := &api.TurnList{Turns: []api.Turn{}}
	size := 0
	err = e.pathTurns(ctx, n, lo, min(hi, n.Depth-1), func(t projections.Turn, ev *turns.Event) (bool, error) {
		if t.Kind == turns.KindCompaction && (all || t.Ref != n.Previous) {
			return true, nil
		}
		v, k, err := e.listedTurn(t, ev, true)
		if err != nil {
			return false, err
		}
		if len(out.Turns) == limit || (len(out.Turns) > 0 && size+k > e.pageBytes()) {
			out.Next = out.Turns[len(out.Turns)-1].ID.String()
			return false, nil
		}
		out.Turns, size = append(out.Turns, *v), size+k
		return true, nil
	})
	return out, err
}

// expandFrom is the depth at which an expansion goes on; 0: there is nothing.
func (e *Engine) expandFrom(n lineage.Node, all bool, after string) (uint64, error) {
	lo := uint64(1)
	if !all && !n.Previous.IsZero() {
		up, err := e.Store.Nodes(n.Previous)
		if err != nil {
			return 0, err
		}
		if up[0].Cut == n.Cut {
			return 0, nil
		}
		lo = up[0].Cut.Depth()
	}
	if after != "" {
		id, err := optionalID("/after", after)
		if err != nil {
			return 0, err
		}
		a, err := e.onPath(n, id)
		if err != nil {
			return 0, err
		}
		lo = max(lo, a+1)
	}
	return lo, nil
}

// onPath is the depth of the turn of this id on the path of n.
func (e *Engine) onPath(n lineage.Node, id turns.ID) (uint64, error) {
	s, err := e.Store.Session(n.Ref.Session)
	if err != nil {
		return 0, err
	}
	t, err := e.find(&s, id)
	if err != nil {
		return 0, fieldErr("/after", "not a turn of this list")
	}
	ok, err := lineage.IsAncestor(e.Store, t, n)
	if err != nil || !ok {
		return 0, errors.Join(fieldErr("/after", "not a turn of this list"), err)
	}
	return t.Depth, nil
}

func (e *Engine) notifyApplied(c Caller, session turns.ID, ref turns.Ref, at string, plan *plan.Plan, res compactor.Result) {
	e.notify(c, session, "compaction.applied", ref.Turn, at, map[string]any{
		"tokens_saved": int64(res.Body.TokensBefore) - int64(res.Body.TokensAfter), "targets_count": plan.Targets(),
		"duration_ms": res.Body.DurationMS, "tier": res.Body.Tier, "elisions": len(res.Span.Elisions)})
}

// notify tells of what is at a position; "": of what is known here now.
func (e *Engine) notify(c Caller, session turns.ID, what string, turn turns.ID, at string, detail map[string]any) {
	if e.Notify == nil {
		return
	}
	if at == "" {
		at = position(e.Store.Applied().Seq)
	}
	n := api.Notification{What: what, Session: session, Turn: turn, Position: at}
	if detail != nil {
		if b, err := turns.EncodeJSON(detail); err == nil {
			n.Detail = b
		}
	}
	e.Notify(c.Tenant, c.Agent, n)
}
