package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/fork"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Fork is fork.create. It stores one event and copies nothing, at any depth;
// mode summary stores a second, the summary at the fork point, unless a legal
// one is inherited.
//
// Crash states: between the two events the fork exists and sees what the fork
// point saw; a retry with the same id adds the summary.
func (e *Engine) Fork(ctx context.Context, c Caller, session turns.ID, req api.CreateFork, canonical []byte) (*api.Session, error) {
	if c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "the operator reads all agents and creates nothing; name an agent"}
	}
	mode, err := turns.ParseForkMode(req.Mode)
	if err != nil {
		return nil, err
	}
	point, err := e.locate(ctx, c, session, req.Turn, api.Read{})
	if err != nil {
		return nil, err
	}
	parent, err := e.row(ctx, c, session, true) // its settings are stored for good
	if err != nil {
		return nil, err
	}
	t, err := e.Store.Turn(point.Ref)
	if err != nil {
		return nil, err
	}
	stored := mode
	if ignores, err := parent.Ignores(point.Ref.Session, e.Store.Session); err != nil {
		return nil, err
	} else if ignores {
		// The parent leaves aside the compactions above this inherited turn, and
		// is not on the path of a fork from there: the fork has to do so itself.
		stored, point.Compaction = turns.Full, turns.Ref{}
	}
	of, err := fork.At(point, t.Hash, stored)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ledger.ErrUnprocessable, err)
	}
	id, err := e.newID(req.ID)
	if err != nil {
		return nil, err
	}
	_, set, err := e.inForce(ctx, parent)
	if err != nil {
		return nil, err
	}
	set.Meta = nil
	label, err := e.applySettings(&set, "", api.SessionSettings{Label: req.Label, Policy: req.Policy, Meta: req.Meta})
	if err != nil {
		return nil, err
	}
	// A fork keeps its parent's kind or narrows it; it never widens it.
	ev := &turns.Event{
		ID: id, Kind: turns.KindOpened, Root: parent.Root, Agent: c.Agent, Role: parent.Kind, ForkOf: of,
		Origin: &turns.Origin{Ledger: e.Ledger, Tenant: c.Tenant, Session: id},
	}
	out, err := e.openSession(ctx, c, request{id: id, what: "fork.create", canonical: canonical}, ev, label, set)
	if err != nil {
		return nil, e.taken(ctx, c, label, err)
	}
	if mode == turns.Summary && (out.Turns == 0 && out.Compactions == 0) {
		if err := e.summarizeFork(ctx, c, id, point); err != nil {
			return nil, written(err)
		}
		if out, err = e.Get(ctx, c, id, api.Read{}); err != nil {
			return nil, written(err)
		}
	}
	if out.Mode = stored.String(); mode == turns.Summary {
		out.Mode = mode.String()
	}
	return out, nil
}

// summarizeFork gives a fork a summary to start from: one made elsewhere on
// the tree that saw nothing beyond the fork point, or a new one. A fork whose
// path has nothing to summarize starts as seen.
func (e *Engine) summarizeFork(ctx context.Context, c Caller, id turns.ID, point lineage.Node) error {
	reused, err := e.reuse(ctx, c, id, point)
	if reused || err != nil {
		return err
	}
	_, err = e.compact(ctx, c, id, compaction{
		trigger: turns.Trigger{Kind: plan.TriggerManual}, request: request{what: "fork.summary"}, local: true, opts: plan.Options{Cover: true},
	})
	if errors.Is(err, api.ErrNothing) {
		return nil
	}
	return err
}

// reuse looks for a compaction, on any branch, that covers the most of the
// fork point's path and is legal there, and stores its replacement on the fork.
func (e *Engine) reuse(ctx context.Context, c Caller, id turns.ID, point lineage.Node) (bool, error) {
	var floor lineage.Cut
	if !point.Compaction.IsZero() {
		ns, err := e.Store.Nodes(point.Compaction)
		if err != nil {
			return false, err
		}
		floor = ns[0].Cut
	}
	const farthest, most = 4096, 64 // turns above the fork point, and compactions, that are looked at
	looked := 0
	for n := point; !n.Ref.IsZero() && n.Depth >= floor.Depth() && point.Depth-n.Depth < farthest; {
		if ctx.Err() != nil {
			return false, fmt.Errorf("%w: looked for a summary: %w", ledger.ErrUnavailable, ctx.Err())
		}
		covering, err := e.Store.Covering(n.Ref)
		if err != nil {
			return false, err
		}
		for _, ref := range covering {
			if looked++; looked > most {
				return false, nil
			}
			ok, err := e.reuseOne(ctx, c, id, point, ref)
			if ok || err != nil {
				return ok, err
			}
		}
		if n.Parent.IsZero() {
			break
		}
		up, err := e.Store.Nodes(n.Parent)
		if err != nil {
			return false, err
		}
		n = up[0]
	}
	return false, nil
}

func (e *Engine) reuseOne(ctx context.Context, c Caller, id turns.ID, point lineage.Node, ref turns.Ref) (bool, error) {
	t, ev, err := e.turnEvent(ref)
	if err != nil {
		return false, err
	}
	ok, err := fork.Reusable(e.Store, point, ev.Span)
	// What it stands on must be what the fork stands on, or its text would not
	// include what the fork's own compaction in force covers.
	if err != nil || !ok || ev.Span.Previous != point.Compaction || ev.Span.Call {
		return false, err
	}
	var body turns.CompactionBody
	if err := e.open(ev, &body); err != nil {
		if errors.Is(err, turns.ErrErased) {
			return false, nil
		}
		return false, err
	}
	s, err := e.row(ctx, c, id, true)
	if err != nil {
		return false, err
	}
	if err := e.inline(ctx, s.Tenant, s.Root, &body); err != nil { // or its size would be that of the references
		return false, err
	}
	if ok, err := e.fitsFork(ctx, s, point, t.Node, &body); err != nil || !ok {
		return false, err
	}
	body.Mode, body.Flush = "reused", "" // which was of another session
	body.Trigger.Detail = turns.Raw(fmt.Sprintf(`{"reused":{"session":%q,"turn":%q}}`, ref.Session, ref.Turn))
	var made turns.Ref
	err = e.mutate(ctx, c, s.ID, func(_ *chain, s *ledger.Session) (*draft, error) {
		own, done, err := e.begin(s, request{what: "fork.summary"}, turns.KindCompaction)
		if done || err != nil {
			return nil, err
		}
		head, err := e.headNode(s)
		if err != nil {
			return nil, err
		}
		body := body
		d, err := e.draftCompaction(s, head, own, *ev.Span, ev.Tokens.Response, nil, &body, nil, &made)
		if err != nil {
			return nil, err
		}
		inherited, err := e.ancestors(s)
		if err != nil {
			return nil, err
		}
		for _, k := range ev.Keys {
			// The branch that the summary was made on has said nothing that is in it.
			if slices.Contains(inherited, k) {
				d.keys = append(d.keys, k)
			}
		}
		return d, nil
	})
	return err == nil, err
}

// fitsFork reports whether a summary shows something, and leaves a context at
// the fork point no larger than the fork's own policy would leave it.
func (e *Engine) fitsFork(ctx context.Context, s *ledger.Session, point, made lineage.Node, body *turns.CompactionBody) (bool, error) {
	_, set, err := e.inForce(ctx, s)
	if err != nil {
		return false, err
	}
	pol, err := policy.Resolve(set.Policy)
	if err != nil {
		return false, err
	}
	kept, err := lineage.TokensFrom(e.Store, point, made.Cut)
	if err != nil {
		return false, err
	}
	replaced := tokens.Messages(e.Counter, body.Replacement)
	return replaced > 0 && scaled(saturated(replaced, kept), pol) <= pol.Target(set.Limits, e.overhead(pol.CounterOf(), &set)), nil
}

// ancestors is a session and those that it inherits from.
func (e *Engine) ancestors(s *ledger.Session) ([]turns.ID, error) {
	ids := []turns.ID{s.ID}
	for f := s.ForkOf; f != nil; {
		up, err := e.Store.Session(f.At.Session)
		if err != nil {
			return nil, err
		}
		ids, f = append(ids, up.ID), up.ForkOf
	}
	return ids, nil
}

// Record is compaction.record: what another system's agent saw instead of its
// history, brought in with that history.
func (e *Engine) Record(ctx context.Context, c Caller, session turns.ID, req api.RecordCompaction, canonical []byte) (*api.Turn, error) {
	if err := turns.ValidateMessages("/replacement", req.Replacement); err != nil {
		return nil, err
	}
	if err := fitsWord("/summary", req.Summary, e.summaryBytes()); err != nil {
		return nil, err
	}
	if _, err := claimed(req.Time); err != nil {
		return nil, err
	}
	sent := &turns.CompactionBody{Replacement: req.Replacement}
	if err := e.adopt(ctx, c, session, sent); err != nil {
		return nil, err
	}
	req.Replacement = sent.Replacement
	var ref turns.Ref
	var duplicate bool
	r := request{id: req.ID, what: "compaction.record", canonical: canonical}
	err := e.mutate(ctx, c, session, func(_ *chain, s *ledger.Session) (*draft, error) {
		ev, done, err := e.begin(s, r, turns.KindCompaction)
		if done || err != nil {
			if ev != nil {
				ref, duplicate = ev.Ref(), true
			}
			return nil, err
		}
		head, err := e.headNode(s)
		if err != nil {
			return nil, err
		}
		if head.Ref.IsZero() {
			return nil, &api.Error{Code: api.Nothing, Message: "the session has no turn to compact"}
		}
		if err := e.attaches(s, head, req.Parent); err != nil {
			return nil, err
		}
		return e.draftRecorded(ctx, s, head, ev, req, &ref)
	})
	if err != nil {
		return nil, err
	}
	t, err := e.GetTurn(ctx, c, session, api.GetTurn{ID: ref.Turn})
	if err == nil {
		t.Duplicate = duplicate
	}
	return t, written(err)
}

func (e *Engine) draftRecorded(ctx context.Context, s *ledger.Session, head lineage.Node, ev *turns.Event, req api.RecordCompaction, ref *turns.Ref) (*draft, error) {
	_, set, err := e.inForce(ctx, s)
	if err != nil {
		return nil, err
	}
	p, err := e.path(ctx, s, &set, policy.Policy{}, head) // by the ledger's own counter
	if err != nil {
		return nil, err
	}
	var first turns.Ref
	if !req.FirstKept.IsZero() {
		n, err := e.find(s, req.FirstKept)
		if err != nil {
			return nil, err
		}
		first = n.Ref
	}
	rec := compactor.Recorded{
		FirstKept: first, Replacement: req.Replacement, Summary: req.Summary, Trigger: req.Trigger,
		TokensBefore: req.TokensBefore, Dropped: req.Dropped,
	}
	for _, x := range req.Cleared {
		n, err := e.find(s, x.Turn)
		if err != nil {
			return nil, err
		}
		rec.Cleared = append(rec.Cleared, compactor.ClearedCall{Turn: n.Ref, Call: x.Call})
	}
	res, err := compactor.Record(p, rec, e.Counter)
	if err != nil {
		return nil, planError(err)
	}
	if ev.Claimed, err = claimed(req.Time); err != nil {
		return nil, err
	}
	if res.Body.Meta, err = mergedMeta(res.Body.Meta, req.Meta); err != nil {
		return nil, err
	}
	covered := p.Halves
	return e.draftCompaction(s, head, ev, res.Span, p.Saves(res.Span, &res.Body, e.Counter), nil, &res.Body, covered, ref)
}

// mergedMeta is the members of two JSON objects, own before those that a request
// gives; nil for none.
func mergedMeta(own, given turns.Raw) (turns.Raw, error) {
	if len(own) == 0 || len(given) == 0 {
		return append(own, given...), nil
	}
	var all, mine map[string]turns.Raw
	if err := errors.Join(turns.DecodeJSON(given, &all), turns.DecodeJSON(own, &mine)); err != nil {
		return nil, err
	}
	for k, v := range mine {
		all[k] = v
	}
	return turns.EncodeJSON(all)
}
