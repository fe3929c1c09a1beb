package compactions

import (
	"context"
	"errors"
	"slices"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// sealingSessions returns the sessions under whose content keys a compaction must be
// sealed: every session that any of its text comes from. So erasing one of them
// makes the summary unreadable too. Of an erased session there is no text.
func sealingSessions(s *ledger.Session, covered []summary.HalfTurn, previous []turns.ID) []turns.ID {
	keys := append([]turns.ID{s.ID}, previous...)
	for _, h := range covered {
		if !h.Erased && !slices.Contains(keys, h.Ref.Session) {
			keys = append(keys, h.Ref.Session)
		}
	}
	return keys
}

// eventKeys returns the sessions under whose content keys an event is sealed; none if one of them was erased: then its
// text is nowhere.
func (cm *Compactions) eventKeys(ref turns.Ref) ([]turns.ID, error) {
	_, ev, err := cm.reader.TurnEvent(ref)
	if err != nil {
		return nil, err
	}
	for _, id := range ev.Keys {
		if _, err := cm.content.Key(id); errors.Is(err, turns.ErrErased) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return ev.Keys, nil
}

// commitCompaction stores a compaction, and returns its turn and position. The
// position is "" if the same request stored it before.
func (cm *Compactions) commitCompaction(ctx context.Context, c reader.Caller, session turns.ID, k Spec, w planned, res compactor.Result) (ref turns.Ref, at string, err error) {
	if err := cm.policies.Store(ctx, c, w.policy); err != nil {
		return ref, "", err
	}
	err = cm.writer.Mutate(ctx, c, session, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := cm.writer.BeginEvent(s, k.Request, turns.KindCompaction)
		if done || err != nil {
			if ev != nil {
				ref = ev.Ref()
			}
			return nil, err
		}
		head, err := cm.reader.HeadNode(s)
		if err != nil {
			return nil, err
		}
		if head.Ref != w.path.Head.Ref {
			if w, res, err = cm.rebase(ctx, s, head, w, res); err != nil {
				return nil, err
			}
		}
		body := res.Body
		body.Policy = w.policyRef
		if body.Flush, err = cm.flushOutcome(ctx, s, head, res.Span); err != nil {
			return nil, err
		}
		saved := w.path.Saves(res.Span, &res.Body, cm.content.Counter)
		d, err := cm.DraftCompaction(s, head, ev, res.Span, saved, res.Usage, &body, w.plan.Reads, &ref)
		if err == nil {
			d.Keys = append(d.Keys, w.sources...)
			d.After = func(seq uint64, _ turns.Hash) { at = page.FormatPosition(seq) }
			if body.Memories, err = cm.memories.Localize(ctx, s, &body); err != nil {
				return nil, err
			}
			ev.Learned, err = cm.memories.Learned(s, w.policy.MemoryKind, ledger.LearnedBranch(ev), &body)
		}
		return d, err
	})
	return ref, at, err
}

// catchUp carries a summary to the session's head before it is committed, and amends it
// for the turns that came while it was made. It runs outside of the writer, whose
// decisions hold up the session's appends.
//
// With an error w and res are as they were.
//
// Limit: turns that come between catchUp and the commit are not looked at.
func (cm *Compactions) catchUp(ctx context.Context, c reader.Caller, session turns.ID, w planned, res compactor.Result) (planned, compactor.Result, error) {
	s, err := cm.reader.FindSession(ctx, c, session, true)
	if err != nil {
		return w, res, err
	}
	head, err := cm.reader.HeadNode(s)
	if err != nil || head.Ref == w.path.Head.Ref {
		return w, res, err
	}
	old := w.plan
	if w, res, err = cm.rebase(ctx, s, head, w, res); err != nil {
		return w, res, err
	}
	return w, compactor.Amend(old, w.plan, res, w.path.Counter), nil
}

// rebase carries a summary that was made on an older head to the current head, and
// returns the plan and the path there.
func (cm *Compactions) rebase(ctx context.Context, s *ledger.Session, head lineage.Node, w planned, res compactor.Result) (planned, compactor.Result, error) {
	_, set, err := cm.reader.SettingsInForce(ctx, s)
	if err != nil {
		return w, res, err
	}
	now, err := cm.paths.Load(ctx, s, &set, w.policy, head)
	if err != nil {
		return w, res, err
	}
	old, err := lineage.IsAncestor(cm.reader.Projections, w.path.Head, head)
	if err != nil {
		return w, res, err
	}
	if !old {
		return w, res, plan.ErrStale
	}
	rebased, err := w.plan.Rebase(now)
	if err != nil {
		return w, res, err
	}
	w.plan, w.path = rebased, now
	return w, compactor.Resize(rebased, res), nil
}

// DraftCompaction drafts the event of a compaction at the head, and sets ref to its
// turn. saved is how many tokens its elisions save, covered the halves that its text
// comes from.
func (cm *Compactions) DraftCompaction(s *ledger.Session, head lineage.Node, ev *turns.Event, span turns.Span, saved uint64, usage *turns.Usage, body *turns.CompactionBody, covered []summary.HalfTurn, ref *turns.Ref) (*writer.Draft, error) {
	t, err := cm.reader.Projections.Turn(head.Ref)
	if err != nil {
		return nil, err
	}
	ev.Parent, ev.Depth, ev.Segment = s.Head, head.Depth+1, s.SegmentFor(ev.ID, s.Head)
	ev.Open, ev.Usage, ev.Span = t.Open, usage, &span
	forget, err := s.Ignores(s.Head.Session, cm.reader.Projections.Session)
	if err != nil {
		return nil, err
	}
	if !forget {
		span.Previous = head.Compaction
	}
	ev.Tokens = turns.Tokens{Counter: cm.content.Counter.Name(),
		Messages: tokens.Messages(cm.content.Counter, body.Replacement) + tokens.Messages(cm.content.Counter, body.Nudge), Response: saved}
	var previous []turns.ID
	if !span.Previous.IsZero() {
		if previous, err = cm.eventKeys(span.Previous); err != nil {
			return nil, err
		}
	}
	*ref = turns.Ref{Session: s.ID, Turn: ev.ID}
	return &writer.Draft{Event: ev, Body: body, Head: head, Keys: sealingSessions(s, covered, previous)}, nil
}

// notifyApplied announces a stored compaction.
func (cm *Compactions) notifyApplied(c reader.Caller, session turns.ID, ref turns.Ref, at string, plan *plan.Plan, res compactor.Result) {
	cm.writer.Announce(c, session, "compaction.applied", ref.Turn, at, map[string]any{
		"tokens_saved": int64(res.Body.TokensBefore) - int64(res.Body.TokensAfter), "targets_count": plan.Targets(),
		"duration_ms": res.Body.DurationMS, "tier": res.Body.Tier, "elisions": len(res.Span.Elisions)})
}
