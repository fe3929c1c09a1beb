package compactions

import (
	"context"
	"errors"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// Record is compaction.record: it stores a compaction that another system made, with
// the history that it replaced there.
func (cm *Compactions) Record(ctx context.Context, c reader.Caller, session turns.ID, req api.RecordCompaction, canonical []byte) (*api.Turn, error) {
	if err := turns.ValidateMessages("/replacement", req.Replacement); err != nil {
		return nil, err
	}
	if err := page.CheckText("/summary", req.Summary, cm.page.SummaryBytes()); err != nil {
		return nil, err
	}
	if len(req.Model) > turns.MaxName {
		return nil, api.FieldErrorf("/model", "longer than %d bytes", turns.MaxName)
	}
	if err := turns.ValidateUsage("/usage", req.Usage); err != nil {
		return nil, err
	}
	if req.TokensBefore > turns.MaxCount {
		return nil, api.FieldErrorf("/tokens_before", "%d is over %d", req.TokensBefore, uint64(turns.MaxCount))
	}
	if _, err := writer.ClaimedTime(req.Time); err != nil {
		return nil, err
	}
	sent := &turns.CompactionBody{Replacement: req.Replacement}
	missing := cm.writer.InlineAttachments(ctx, c, session, sent)
	if missing != nil && !errors.Is(missing, ledger.ErrNotFound) {
		return nil, missing
	}
	req.Replacement = sent.Replacement
	var ref turns.Ref
	var duplicate bool
	r := writer.Request{ID: req.ID, Verb: "compaction.record", Canonical: canonical}
	err := cm.writer.Mutate(ctx, c, session, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := cm.writer.BeginEvent(s, r, turns.KindCompaction)
		if done || err != nil {
			if ev != nil {
				ref, duplicate = ev.Ref(), true
			}
			return nil, err
		}
		if missing != nil { // of a request that is stored, the blob may have been collected since
			return nil, missing
		}
		head, err := cm.reader.HeadNode(s)
		if err != nil {
			return nil, err
		}
		if head.Ref.IsZero() {
			return nil, &api.Error{Code: api.Nothing, Message: "the session has no turn to compact"}
		}
		if err := cm.writer.CheckParent(s, head, req.Parent); err != nil {
			return nil, err
		}
		return cm.draftRecorded(ctx, s, head, ev, req, &ref)
	})
	if err != nil {
		return nil, err
	}
	t, err := cm.reader.GetTurn(ctx, c, session, api.GetTurn{ID: ref.Turn})
	if err == nil {
		t.Duplicate = duplicate
	}
	return t, writer.AfterCommit(err)
}

// draftRecorded drafts the event of a recorded compaction.
func (cm *Compactions) draftRecorded(ctx context.Context, s *ledger.Session, head lineage.Node, ev *turns.Event, req api.RecordCompaction, ref *turns.Ref) (*writer.Draft, error) {
	_, set, err := cm.reader.SettingsInForce(ctx, s)
	if err != nil {
		return nil, err
	}
	p, err := cm.paths.Load(ctx, s, &set, policy.Policy{}, head) // by the ledger's own counter
	if err != nil {
		return nil, err
	}
	var first turns.Ref
	if !req.FirstKept.IsZero() {
		n, err := cm.reader.FindTurn(s, req.FirstKept)
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
		n, err := cm.reader.FindTurn(s, x.Turn)
		if err != nil {
			return nil, err
		}
		rec.Cleared = append(rec.Cleared, compactor.ClearedCall{Turn: n.Ref, Call: x.Call})
	}
	res, err := compactor.Record(p, rec, cm.content.Counter)
	if err != nil {
		return nil, planError(err)
	}
	if ev.Claimed, err = writer.ClaimedTime(req.Time); err != nil {
		return nil, err
	}
	if res.Body.Meta, err = mergeMeta(res.Body.Meta, req.Meta); err != nil {
		return nil, err
	}
	res.Body.Model = req.Model
	covered := p.Halves
	return cm.DraftCompaction(s, head, ev, res.Span, p.Saves(res.Span, &res.Body, cm.content.Counter), req.Usage, &res.Body, covered, ref)
}

// mergeMeta returns the members of two JSON objects, nil if both are empty. A member
// of kept replaces one of added.
func mergeMeta(kept, added turns.Raw) (turns.Raw, error) {
	if len(kept) == 0 || len(added) == 0 {
		return append(kept, added...), nil
	}
	var all, first map[string]turns.Raw
	if err := errors.Join(turns.DecodeJSON(added, &all), turns.DecodeJSON(kept, &first)); err != nil {
		return nil, err
	}
	for k, v := range first {
		all[k] = v
	}
	return turns.EncodeJSON(all)
}
