package compactions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// Spec says which compaction to make of a session.
type Spec struct {
	Request writer.Request
	policy  *api.Policy
	Trigger turns.Trigger
	Opts    plan.Options
	ifDue   bool      // only if the policy's trigger fires
	renews  bool      // with ifDue: if it does not fire, make a summary by rules anew by a model
	Local   bool      // a request waits, so only tiers that ask no model
	loaded  *Decision // the path that the request has loaded; may be nil
}

// Compact is compaction.run.
func (cm *Compactions) Compact(ctx context.Context, c reader.Caller, session turns.ID, req api.RunCompaction, canonical []byte) (*api.CompactionRun, error) {
	if err := page.CheckText("/focus", req.Focus, cm.page.TextBytes()); err != nil {
		return nil, err
	}
	if req.DryRun {
		plan, err := cm.preview(ctx, c, session, req)
		if err != nil {
			return nil, err
		}
		return &api.CompactionRun{Plan: describePlan(plan), State: "planned"}, nil
	}
	if c.Operator() {
		return nil, errOperator()
	}
	if !req.At.IsZero() {
		if _, _, err := cm.reader.SessionAt(ctx, c, session, req.At, api.Read{}); err != nil {
			return nil, err
		}
		return nil, api.FieldErrorf("/at", "a compaction is stored at the head alone; for one at an older turn fork.create there, and compact the fork; dry_run plans at any turn")
	}
	k := Spec{
		Request: writer.Request{ID: req.ID, Verb: "compaction.run", Canonical: canonical}, policy: req.Policy,
		Trigger: turns.Trigger{Kind: "manual"}, Opts: plan.Options{Focus: req.Focus, FromOriginals: req.FromOriginals, Budget: req.Budget}, Local: req.AtOnce,
	}
	var ref turns.Ref
	var err error
	if cm.hasModelTier() && !req.AtOnce {
		if ref, err = cm.runQueued(ctx, c, session, &k, req.WaitMS); err == nil && ref.IsZero() {
			return &api.CompactionRun{ID: k.Request.ID, State: "running"}, nil
		}
	} else {
		ref, err = cm.Run(ctx, c, session, k)
	}
	if err != nil {
		return nil, atOnceError(req, err)
	}
	t, err := cm.reader.GetTurn(ctx, c, session, api.GetTurn{ID: ref.Turn})
	if err != nil {
		return nil, writer.AfterCommit(err)
	}
	return &api.CompactionRun{Compaction: t, State: "done"}, nil
}

// errOperator is the answer to the operator, who compacts nothing.
func errOperator() error {
	return &api.Error{Code: api.Denied, Message: "the operator reads all agents and changes nothing; name the session's agent"}
}

// atOnceError returns the error of a compaction that asks no model: where the policy accepts
// none but a model's summary, it fails the next time, too.
func atOnceError(req api.RunCompaction, err error) error {
	if req.AtOnce && errors.Is(err, compactor.ErrFailed) {
		return &api.Error{Code: api.Unprocessable, Message: "the policy accepts no summary but a model's: " + err.Error()}
	}
	return err
}

// runQueued makes a compaction that may ask a model, in the background. It returns
// the zero Ref if that takes longer than the request waits; the same request again
// learns how it ended.
func (cm *Compactions) runQueued(ctx context.Context, c reader.Caller, session turns.ID, k *Spec, waitMS int) (turns.Ref, error) {
	var err error
	if k.Request.ID, err = cm.writer.NewID(k.Request.ID); err != nil {
		return turns.Ref{}, err
	}
	s, err := cm.reader.FindSession(ctx, c, session, true)
	if err != nil {
		return turns.Ref{}, err
	}
	if ref, err := cm.storedCompaction(s, k.Request); err != nil || !ref.IsZero() {
		return ref, err
	}
	j, err := cm.findRun(ctx, session, k.Request)
	if err != nil {
		return turns.Ref{}, err
	}
	if j == nil {
		// Plan first, so that the request gets a refusal at once.
		w, err := cm.planCompaction(ctx, c, session, *k)
		if err != nil || !w.stored.IsZero() {
			return w.stored, err
		}
		if j, err = cm.enqueueRun(ctx, c, session, *k); err != nil {
			return turns.Ref{}, err
		}
	}
	return cm.await(ctx, j, WaitDuration(waitMS))
}

// Run plans on the head, summarizes without blocking the session, and commits by
// compare-and-set. If turns came meanwhile, it rebases the plan if that is legal
// (invariant 9), and plans again if it is not.
//
// Crash states: before the commit nothing is stored; after it the whole compaction
// is.
func (cm *Compactions) Run(ctx context.Context, c reader.Caller, session turns.ID, k Spec) (turns.Ref, error) {
	cm.countAppend(ctx)
	began, started, ended := cm.reader.Now(), false, false
	var lost wasted
	defer func() { // runs after a panic too
		if started && !ended {
			cm.writer.Announce(c, session, "compaction.failed", turns.ID{}, "", lost.details())
			cm.writer.Metrics.Summarized("lost", lost.usage, lost.cost)
		}
	}()
	for try := 0; try < 5; try++ {
		w, err := cm.planCompaction(ctx, c, session, k)
		if err != nil || !w.stored.IsZero() || w.plan == nil {
			ended = !w.stored.IsZero() // another daemon stored and announced it
			return w.stored, err
		}
		if !started {
			started = true
			cm.writer.Announce(c, session, "compaction.started", turns.ID{}, "", withText(w.policy, map[string]any{
				"messages_count": w.path.MeasureLoad(0).Messages, "targets_count": w.plan.Targets(), "force": w.plan.Trigger.Kind == plan.TriggerOverflow}))
		}
		progress := func(done, all int) {
			cm.writer.Announce(c, session, "compaction.progress", turns.ID{}, "", withText(w.policy, map[string]any{"parts_done": done, "parts": all}))
		}
		tiers := cm.paths.TiersFor(w.policy, w.model)
		switch {
		case k.Local:
			tiers = LocalTiers(tiers)
		case w.plan.Renews:
			tiers = slices.DeleteFunc(tiers, func(t compactor.Tier) bool { return t.Local })
		}
		res, err := compactor.Run(ctx, w.plan, tiers, w.path.Counter, progress)
		lost.add(res)
		if err == nil && w.plan.Renews && compactor.ByRules(res.Body.Tier, cm.paths.Tiers) {
			err = fmt.Errorf("%w: the summary by rules stays", compactor.ErrFailed)
		}
		if err != nil {
			return turns.Ref{}, planError(err)
		}
		// The compaction carries the cost of the tries before it.
		res.Usage, res.Body.CostMicros = lost.usage, lost.cost
		res.Body.DurationMS = uint64(cm.reader.Now().Sub(began) / time.Millisecond)
		if !k.Local { // no append waits for it
			// What can't be carried to the head now is carried by the commit, not amended: the
			// summary is paid for.
			if w, res, err = cm.catchUp(ctx, c, session, w, res); !errors.Is(err, plan.ErrStale) {
				err = nil
			}
		}
		var ref turns.Ref
		var at string
		if err == nil {
			ref, at, err = cm.commitCompaction(ctx, c, session, k, w, res)
		}
		if errors.Is(err, plan.ErrStale) {
			continue
		}
		if err == nil {
			ended = true
			if at == "" {
				return ref, nil // another daemon stored and announced it
			}
			cm.writer.Metrics.Compacted(res.Body.Tier, cm.reader.Now().Sub(began))
			cm.writer.Metrics.Summarized("kept", res.Usage, res.Body.CostMicros)
			cm.notifyApplied(c, session, ref, at, w.plan, res)
			cm.Trace(ctx, "compaction", slog.Any("session", session), slog.Any("id", ref.Turn), slog.String("trigger", res.Body.Trigger.Kind),
				slog.String("mode", res.Body.Mode), slog.String("tier", res.Body.Tier), slog.String("model", res.Body.Model), slog.Int("tiers_failed", len(res.Tried)),
				slog.Uint64("tokens_before", res.Body.TokensBefore), slog.Uint64("tokens_after", res.Body.TokensAfter),
				slog.Int("targets", w.plan.Targets()), slog.Int("try", try+1), slog.Duration("took", cm.reader.Now().Sub(began)))
		}
		return ref, err
	}
	return turns.Ref{}, fmt.Errorf("%w: the session kept moving while it was compacted", ledger.ErrUnavailable)
}

// withText adds what a client may show meanwhile to the details of a notification.
func withText(p policy.Policy, details map[string]any) map[string]any {
	if text := p.ProgressText(); text != "" {
		details["text"] = text
	}
	return details
}

// wasted totals what summarizers used in tries that no compaction holds yet.
type wasted struct {
	usage *turns.Usage
	cost  uint64 // micro-dollars
}

// add adds what the summarizers of one try used.
func (l *wasted) add(res compactor.Result) {
	l.usage, l.cost = turns.AddUsage(l.usage, res.Usage), l.cost+res.Body.CostMicros
}

// details returns the detail of a notification, nil if nothing was used.
func (l *wasted) details() map[string]any {
	if l.usage == nil && l.cost == 0 {
		return nil
	}
	return map[string]any{"usage": l.usage, "cost_micros": l.cost}
}

// planned is a plan with the state that it was made on.
type planned struct {
	plan      *plan.Plan
	policy    policy.Policy
	policyRef turns.PolicyRef
	model     string // of the session
	path      view.Path
	sources   []turns.ID // more sessions whose text the summarizer saw, besides those the plan reads
	stored    turns.Ref  // the compaction, if the request is stored already
}

// planCompaction plans on the session's head, unless the request is stored already.
func (cm *Compactions) planCompaction(ctx context.Context, c reader.Caller, session turns.ID, k Spec) (w planned, err error) {
	s, err := cm.reader.FindSession(ctx, c, session, true)
	if err != nil {
		return w, err
	}
	if !k.Request.ID.IsZero() {
		if ev, err := cm.writer.StoredEvent(s, k.Request); ev != nil || err != nil {
			if ev != nil {
				w.stored = ev.Ref()
			}
			return w, err
		}
	}
	if err := writer.CheckOpen(s); err != nil {
		return w, err
	}
	head, err := cm.reader.HeadNode(s)
	if err != nil {
		return w, err
	}
	return cm.planAt(ctx, s, head, k)
}

// planAt plans on a node. The plan is nil if k is conditional and not due.
func (cm *Compactions) planAt(ctx context.Context, s *ledger.Session, head lineage.Node, k Spec) (w planned, err error) {
	_, set, err := cm.reader.SettingsInForce(ctx, s)
	if err != nil {
		return w, err
	}
	w.policyRef, w.model = set.Policy, set.Model
	if k.policy != nil {
		w.policyRef = turns.PolicyRef{Name: k.policy.Name, Set: k.policy.Set}
	}
	if w.policy, err = cm.reader.FindPolicy(ctx, s.Tenant, w.policyRef); err != nil {
		return w, err
	}
	w.policyRef.Digest = w.policy.Digest()
	loaded := k.loaded.ReusableFor(s)
	if k.policy != nil || loaded == nil || loaded.Path.Head != head {
		loaded = nil
		if w.path, err = cm.paths.Load(ctx, s, &set, w.policy, head); err != nil {
			return w, err
		}
	} else {
		w.path = loaded.Path
	}
	trigger := k.Trigger
	if k.ifDue {
		cx := new(view.Context)
		if loaded != nil {
			cx = loaded.Context
		} else if *cx, err = view.Render(w.path, w.path.Counter); err != nil {
			return w, err
		}
		var due bool
		l := w.path.MeasureLoad(cx.Tokens)
		if trigger, due = plan.DueAt(w.path, w.policy, l); !due {
			if k.renews {
				w.plan, err = cm.planRenewal(ctx, s, &set, head, w)
			}
			return w, err
		}
		if waits, err := cm.awaitsFlush(s, w.policy, w.path, l, trigger); waits || err != nil {
			return w, err
		}
	}
	if f := w.path.InForce; f != nil && f.Erased { // nothing can be made of its summary
		k.Opts.FromOriginals = true
	}
	if k.Opts.FromOriginals {
		if k.Opts.Originals, err = cm.paths.Halves(ctx, s, head, 0); err != nil {
			return w, err
		}
	}
	if !k.Local && compactor.AsksModel(w.policy, cm.paths.Tiers) {
		if k.Opts.Known, err = cm.memories.OnRecord(ctx, s, &set, head, w.policy); err != nil {
			return w, err
		}
	}
	w.plan, err = plan.New(w.path, w.policy, trigger, k.Opts)
	return w, planError(err)
}

// maxRenewed is how many compactions by rules in a row a model's summary takes the place of, at
// most: what is before them it has from the text of the one before. So what it costs does not
// grow with the history, though no model has answered for long.
const maxRenewed = 4

// planRenewal plans to make the summary in force anew, by a model, from what no model has
// summarized. It returns nil where a model wrote the summary, or the policy asks none.
func (cm *Compactions) planRenewal(ctx context.Context, s *ledger.Session, set *turns.Settings, head lineage.Node, w planned) (*plan.Plan, error) {
	f := w.path.InForce
	if f == nil || !cm.renews(w.policy) || !compactor.ByRules(f.Body.Tier, cm.paths.Tiers) {
		return nil, nil
	}
	opts := plan.Options{FromOriginals: true, Renew: true}
	switch {
	case len(f.Body.Nudge) > 0: // it reads what is shortened
	case f.Span.Through.IsZero():
		return nil, nil // it has no summary
	default:
		var err error
		if opts.Previous, opts.Originals, err = cm.paths.Unsummarized(ctx, s, head, maxRenewed); err != nil {
			return nil, err
		}
		if opts.Known, err = cm.memories.OnRecord(ctx, s, set, head, w.policy); err != nil {
			return nil, err
		}
	}
	p, err := plan.New(w.path, w.policy, f.Body.Trigger, opts)
	return p, planError(err)
}

// planError maps an error of planning or summarizing to the contract.
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

// failedError is [compactor.ErrFailed] with its error of the contract.
type failedError struct{ error }

// Unwrap returns the error of the contract and [compactor.ErrFailed].
func (f failedError) Unwrap() []error { return []error{f.error, compactor.ErrFailed} }

// preview plans a compaction and writes nothing. It refuses what the run would refuse: at the
// head of a session that takes no more events, and where no model would be asked and no
// summary makes the context smaller. Whether a model's would, nobody knows before.
func (cm *Compactions) preview(ctx context.Context, c reader.Caller, session turns.ID, req api.RunCompaction) (*plan.Plan, error) {
	s, head, err := cm.reader.SessionAt(ctx, c, session, req.At, api.Read{})
	if err != nil {
		return nil, err
	}
	if req.At.IsZero() {
		if err := writer.CheckOpen(s); err != nil {
			return nil, err
		}
	}
	w, err := cm.planAt(ctx, s, head, Spec{policy: req.Policy, Trigger: turns.Trigger{Kind: "manual"},
		Opts: plan.Options{Focus: req.Focus, FromOriginals: req.FromOriginals, Budget: req.Budget}})
	if err != nil {
		return nil, err
	}
	tiers := cm.paths.TiersFor(w.policy, w.model)
	if local := LocalTiers(tiers); req.AtOnce || len(local) == len(tiers) {
		_, err = compactor.Run(ctx, w.plan, local, w.path.Counter, nil)
	}
	return w.plan, atOnceError(req, planError(err))
}

// describePlan returns a plan as the contract shows it.
func describePlan(p *plan.Plan) *api.Plan {
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
