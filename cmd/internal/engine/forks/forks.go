package forks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"nexus/cmd/internal/engine/compactions"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/sessions"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor/plan"
	"nexus/fork"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Fork is fork.create. It stores one event and copies nothing, at any depth. Mode
// summary stores a second event, the summary at the fork point, unless the fork
// inherits one that it may use.
//
// Crash states: between the two events, a fork that sees what the fork point saw. A
// retry with the same id adds the summary.
func (fk *Forks) Fork(ctx context.Context, c reader.Caller, session turns.ID, req api.CreateFork, canonical []byte) (*api.Session, error) {
	if c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "the operator reads all agents and creates nothing; name an agent"}
	}
	if req.Turn.IsZero() {
		return nil, api.FieldErrorf("/turn", "missing: a fork names the turn that it begins at")
	}
	mode, err := turns.ParseForkMode(req.Mode)
	if err != nil {
		return nil, err
	}
	point, err := fk.reader.LocateTurn(ctx, c, session, req.Turn, api.Read{})
	if errors.Is(err, ledger.ErrNotFound) { // of an erased session every turn is, also one that nobody knows
		if s, serr := fk.reader.FindSession(ctx, c, session, false); serr == nil && s.State == turns.Erased {
			return nil, fmt.Errorf("%w: session %s", ledger.ErrErased, session)
		}
	}
	if err != nil {
		return nil, err
	}
	opening, release, err := fk.writer.HoldCopy(ctx)
	if err != nil {
		return nil, err
	}
	release = sync.OnceFunc(release)
	defer release()
	parent, err := fk.reader.FindSessionBeforeLoss(ctx, c, session) // fresh, since the fork stores these settings
	if err != nil {
		return nil, err
	}
	t, err := fk.reader.Projections.Turn(point.Ref)
	if err != nil {
		return nil, err
	}
	stored := mode
	if ignores, err := parent.Ignores(point.Ref.Session, fk.reader.Projections.Session); err != nil {
		return nil, err
	} else if ignores {
		// The parent ignores the compactions above this inherited turn, and it is not
		// on the path of a fork from there. So the fork must ignore them itself.
		stored, point.Compaction = turns.Full, turns.Ref{}
	}
	of, err := fork.At(point, t.Hash, stored)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ledger.ErrUnprocessable, err)
	}
	id, err := fk.writer.NewID(req.ID)
	if err != nil {
		return nil, err
	}
	_, set, err := fk.reader.SettingsInForce(ctx, parent)
	if err != nil {
		return nil, err
	}
	set.Meta, set.SpawnedBy = nil, turns.Ref{}
	by, err := sessions.SpawnedBy(id, req.SpawnedBy)
	if err != nil {
		return nil, err
	}
	r := writer.Request{ID: id, Verb: "fork.create", Canonical: canonical}
	var out *api.Session
	label, err := fk.sessions.ApplySettings(ctx, c.Tenant, &set, "", api.SessionSettings{Label: req.Label, Policy: req.Policy, Meta: req.Meta})
	if err != nil {
		out, err = fk.sessions.StoredOr(ctx, c, r, err)
	} else {
		// A fork keeps its parent's kind or narrows it; it never widens it.
		ev := &turns.Event{
			ID: id, Kind: turns.KindOpened, Root: parent.Root, Agent: c.Agent, Role: parent.Kind, ForkOf: of, SpawnedBy: by,
			Origin: &turns.Origin{Ledger: fk.content.Ledger, Tenant: c.Tenant, Session: id},
		}
		out, err = fk.sessions.OpenSession(opening, c, r, ev, label, set)
	}
	release()
	if err != nil {
		return nil, fk.sessions.FinishResetOnConflict(ctx, c, label, err)
	}
	if mode == turns.Summary && (out.Turns == 0 && out.Compactions == 0) {
		if err := fk.summarizeFork(ctx, c, id, point); err != nil {
			return nil, writer.AfterCommit(err)
		}
		if out, err = fk.reader.Get(ctx, c, id, api.Read{}); err != nil {
			return nil, writer.AfterCommit(err)
		}
	}
	if out.Mode = stored.String(); mode == turns.Summary {
		out.Mode = mode.String()
	}
	return out, nil
}

// summarizeFork gives a fork its first summary: one that another branch made and
// that covers nothing beyond the fork point, or a new one. A fork with nothing to
// summarize gets none.
func (fk *Forks) summarizeFork(ctx context.Context, c reader.Caller, id turns.ID, point lineage.Node) error {
	reused, err := fk.reuseSummary(ctx, c, id, point)
	if reused || err != nil {
		return err
	}
	_, err = fk.compactions.Run(ctx, c, id, compactions.Spec{
		Trigger: turns.Trigger{Kind: plan.TriggerManual}, Request: writer.Request{Verb: "fork.summary"}, Local: true, Opts: plan.Options{Cover: true},
	})
	if errors.Is(err, api.ErrNothing) {
		return nil
	}
	return err
}

// reuseSummary looks on every branch for the compaction that covers the most of the
// fork point's path and is legal there, and stores its replacement on the fork.
func (fk *Forks) reuseSummary(ctx context.Context, c reader.Caller, id turns.ID, point lineage.Node) (bool, error) {
	var floor lineage.Cut
	if !point.Compaction.IsZero() {
		c, err := fk.reader.Projections.Node(point.Compaction)
		if err != nil {
			return false, err
		}
		floor = c.Cut
	}
	const maxAncestors, maxCandidates = 4096, 64
	candidates := 0
	for n := point; !n.Ref.IsZero() && n.Depth >= floor.Depth() && point.Depth-n.Depth < maxAncestors; {
		if ctx.Err() != nil {
			return false, fmt.Errorf("%w: looked for a summary: %w", ledger.ErrUnavailable, ctx.Err())
		}
		covering, err := fk.reader.Projections.Covering(n.Ref)
		if err != nil {
			return false, err
		}
		for _, ref := range covering {
			if candidates++; candidates > maxCandidates {
				return false, nil
			}
			ok, err := fk.tryReuse(ctx, c, id, point, ref)
			if ok || err != nil {
				return ok, err
			}
		}
		if n.Parent.IsZero() {
			break
		}
		if n, err = fk.reader.Projections.Node(n.Parent); err != nil {
			return false, err
		}
	}
	return false, nil
}

// tryReuse stores the replacement of compaction ref on the fork, if that is legal
// and the result fits. It reports whether it did.
func (fk *Forks) tryReuse(ctx context.Context, c reader.Caller, id turns.ID, point lineage.Node, ref turns.Ref) (bool, error) {
	t, ev, err := fk.reader.TurnEvent(ref)
	if err != nil {
		return false, err
	}
	ok, err := fork.Reusable(fk.reader.Projections, point, ev.Span)
	// Both must build on the same compaction, or the text would lack what the fork's
	// compaction in force covers.
	if err != nil || !ok || ev.Span.Previous != point.Compaction || ev.Span.Call {
		return false, err
	}
	var body turns.CompactionBody
	if err := fk.content.Open(ev, &body); err != nil {
		if errors.Is(err, turns.ErrErased) {
			return false, nil
		}
		return false, err
	}
	s, err := fk.reader.FindSession(ctx, c, id, true)
	if err != nil {
		return false, err
	}
	if err := fk.content.InlineBlobs(ctx, s.Tenant, s.Root, &body); err != nil { // the size of the content counts, not that of the refs
		return false, err
	}
	if ok, err := fk.fitsFork(ctx, s, point, t.Node, &body); err != nil || !ok {
		return false, err
	}
	body.Mode, body.Flush = "reused", "" // the flush was of another session
	body.Trigger.Detail = turns.Raw(fmt.Sprintf(`{"reused":{"session":%q,"turn":%q}}`, ref.Session, ref.Turn))
	var stored turns.Ref
	err = fk.writer.Mutate(ctx, c, s.ID, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		reusing, done, err := fk.writer.BeginEvent(s, writer.Request{Verb: "fork.summary"}, turns.KindCompaction)
		if done || err != nil {
			return nil, err
		}
		head, err := fk.reader.HeadNode(s)
		if err != nil {
			return nil, err
		}
		body := body
		d, err := fk.compactions.DraftCompaction(s, head, reusing, *ev.Span, ev.Tokens.Response, nil, &body, nil, &stored)
		if err != nil {
			return nil, err
		}
		inherited, err := fk.ancestors(s)
		if err != nil {
			return nil, err
		}
		for _, k := range ev.Keys {
			// The summary has no text of the branch that made it.
			if slices.Contains(inherited, k) {
				d.Keys = append(d.Keys, k)
			}
		}
		return d, nil
	})
	return err == nil, err
}

// fitsFork reports whether a summary shows anything, and whether the context at the
// fork point is no larger with it than the fork's own policy would make it.
func (fk *Forks) fitsFork(ctx context.Context, s *ledger.Session, point, summary lineage.Node, body *turns.CompactionBody) (bool, error) {
	_, set, err := fk.reader.SettingsInForce(ctx, s)
	if err != nil {
		return false, err
	}
	pol, err := fk.reader.ResolvePolicy(ctx, s.Tenant, set.Policy)
	if err != nil {
		return false, err
	}
	kept, err := lineage.TokensFrom(fk.reader.Projections, point, summary.Cut)
	if err != nil {
		return false, err
	}
	replaced := tokens.Messages(fk.content.Counter, body.Replacement)
	return replaced > 0 && reader.ScaleTokens(content.SaturatingAdd(replaced, kept), pol) <= pol.Target(set.Limits, fk.content.Overhead(pol.CounterOf(), &set)), nil
}

// ancestors returns the ids of a session and of those that it inherits from.
func (fk *Forks) ancestors(s *ledger.Session) ([]turns.ID, error) {
	ids := []turns.ID{s.ID}
	for f := s.ForkOf; f != nil; {
		up, err := fk.reader.Projections.Session(f.At.Session)
		if err != nil {
			return nil, err
		}
		ids, f = append(ids, up.ID), up.ForkOf
	}
	return ids, nil
}

// Forks opens sessions that begin at a turn of another. Safe for concurrent use.
type Forks struct {
	content     *content.Store
	reader      *reader.Reader
	writer      *writer.Writer
	compactions *compactions.Compactions
	sessions    *sessions.Sessions
}

// New returns the forks of the sessions of ss.
func New(cs *content.Store, r *reader.Reader, w *writer.Writer, cm *compactions.Compactions, ss *sessions.Sessions) *Forks {
	return &Forks{content: cs, reader: r, writer: w, compactions: cm, sessions: ss}
}
