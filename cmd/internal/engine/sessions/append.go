package sessions

import (
	"context"
	"errors"
	"math"
	"time"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Append is turn.append.
func (ss *Sessions) Append(ctx context.Context, c reader.Caller, session turns.ID, req api.AppendTurn, canonical []byte) (*api.Appended, error) {
	began := time.Now()
	ctx = request.With(ctx, func(r *request.Request) { r.Append = true })
	if err := validateAppend(&req); err != nil {
		return nil, err
	}
	sent := &turns.TurnBody{Messages: req.Messages, Response: req.Response}
	missing := ss.writer.InlineAttachments(ctx, c, session, sent)
	if missing != nil && !errors.Is(missing, ledger.ErrNotFound) {
		return nil, missing
	}
	req.Messages, req.Response = sent.Messages, sent.Response
	r := writer.Request{ID: req.ID, Verb: "turn.append", Canonical: canonical}
	var ack *api.Appended
	finder := ss.paths.NewCallFinder()
	err := ss.writer.Mutate(ctx, c, session, func(ch *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := ss.writer.BeginEvent(s, r, turns.KindTurn)
		if err != nil {
			return nil, err
		}
		if done {
			ack, err = ss.duplicateAck(ctx, c, s, ev)
			return nil, writer.AfterCommit(err)
		}
		if missing != nil { // of a request that is stored, the blob may have been collected since
			return nil, missing
		}
		d, a, err := ss.draftTurn(ctx, c, ch, s, ev, req, finder)
		ack = a
		return d, err
	})
	if err != nil {
		return nil, err
	}
	ss.writer.Metrics.ObserveAppend(time.Since(began))
	if !ack.Duplicate && ss.writer.Notify != nil {
		ss.writer.Notify(c.Tenant, c.Agent, api.Notification{Kind: "turn.appended", Session: session, Turn: ack.ID, Position: ack.Position})
		if ack.Flush.Due {
			ss.writer.Announce(c, session, "flush.requested", ack.ID, ack.Position, map[string]any{"cycle": ack.Flush.Cycle})
		}
	}
	return ack, nil
}

// validateAppend checks the request on its own, without the session.
func validateAppend(req *api.AppendTurn) error {
	if err := turns.ValidateMessages("/messages", req.Messages); err != nil {
		return err
	}
	if err := turns.ValidateResponse("/response", req.Response); err != nil {
		return err
	}
	switch {
	case len(req.Messages) == 0 && req.Response == nil:
		return api.FieldErrorf("/messages", "a turn has messages, a response, or both")
	case len(req.Model) > turns.MaxName:
		return api.FieldErrorf("/model", "longer than %d bytes", turns.MaxName)
	case req.Meta != nil && req.Meta.Kind() != '{':
		return api.FieldErrorf("/meta", "not a JSON object")
	}
	if err := turns.ValidateUsage("/usage", req.Usage); err != nil {
		return err
	}
	_, err := writer.ClaimedTime(req.Time)
	return err
}

// shownRequest returns req as a context shows its turn.
func shownRequest(req api.AppendTurn) api.AppendTurn {
	req.Messages = turns.Shown(req.Messages)
	if req.Response != nil {
		req.Response = &turns.Shown([]turns.Message{*req.Response})[0]
	}
	return req
}

// draftTurn drafts the event of a turn: its place on the path, what it does to the
// open calls, and its ack. The ack is complete once the draft is stored.
func (ss *Sessions) draftTurn(ctx context.Context, c reader.Caller, ch *writer.Chain, s *ledger.Session, ev *turns.Event, req api.AppendTurn, finder *paths.CallFinder) (*writer.Draft, *api.Appended, error) {
	head, err := ss.reader.HeadNode(s)
	if err != nil {
		return nil, nil, err
	}
	if err := ss.writer.CheckParent(s, head, req.Parent); err != nil {
		return nil, nil, err
	}
	_, set, err := ss.reader.SettingsInForce(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	known, err := ss.paths.OpenCalls(ctx, c.Tenant, s, &ch.Calls, head)
	if err != nil {
		return nil, nil, err
	}
	changes, err := known.Open.After(req.Messages, req.Response, func(ids []string) (map[string]bool, error) { return finder.Find(ctx, head, ids) })
	if err != nil {
		return nil, nil, err
	}
	if known, err = known.Then(changes.Open, req.Messages, req.Response); err != nil {
		return nil, nil, err
	}

	ev.Parent, ev.Depth = s.Head, head.Depth+1
	ev.Segment = s.SegmentFor(ev.ID, s.Head)
	ev.Open, ev.Late, ev.Abandoned = uint64(len(changes.Open)), uint64(len(changes.Late)), uint64(len(changes.Abandoned))
	ev.Usage = req.Usage
	if ev.Claimed, err = writer.ClaimedTime(req.Time); err != nil {
		return nil, nil, err
	}
	if ev.External, err = ss.reader.ExternalLink(c, req.Meta); err != nil {
		return nil, nil, err
	}
	ev.Tokens.Counter = ss.content.Counter.Name()
	shown := shownRequest(req)
	if len(req.Messages) > 0 {
		ev.Halves |= turns.Halves(turns.MessagesHalf)
		ev.Tokens.Messages = tokens.Messages(ss.content.Counter, shown.Messages)
		ev.UserTexts = turns.CountUserTexts(req.Messages)
	}
	if req.Response != nil {
		ev.Halves |= turns.Halves(turns.ResponseHalf)
		ev.Tokens.Response = ss.content.Counter.Message(shown.Response)
		ev.Calls = uint64(len(req.Response.Calls(nil)))
	}
	body := &turns.TurnBody{Messages: req.Messages, Response: req.Response, Model: req.Model, Meta: req.Meta}
	if body.Preamble, err = ss.content.PreambleDigest(&set); err != nil {
		return nil, nil, err
	}
	if u := req.Context; u != nil {
		body.Context = &turns.ContextRef{Recipe: u.Recipe, Fingerprint: u.Fingerprint}
	}

	ack := &api.Appended{ID: ev.ID, Session: s.ID, Depth: ev.Depth, Open: changes.Open, Abandoned: changes.Abandoned, Late: changes.Late}
	ss.page.TrimCalls(ack)
	if !ev.Parent.IsZero() {
		ack.Parent = &ev.Parent.Turn
	}
	var next *paths.Size
	gauge := func(a ledger.Admitted) (err error) {
		next, err = ss.fillGauge(ctx, ack, s, &set, a.Node, &shown)
		return err
	}
	return &writer.Draft{Event: ev, Body: body, Head: head, Before: gauge, After: func(seq uint64, hash turns.Hash) {
		ack.Hash, ack.Position = hash, page.FormatPosition(seq)
		ch.Calls, ch.Calls.At = known, ev.Ref()
		if next != nil {
			ss.paths.RememberSize(s.ID, *next)
		}
	}}, ack, nil
}

// fillGauge sets ack.Context, ack.Compaction and ack.Flush: how full the context of
// the next call is, and what is due before it. head is the node of the appended turn.
// turn is its request if the turn is not stored yet, nil if it is. next is the exact
// size of the path up to head, nil if only an estimate is known.
func (ss *Sessions) fillGauge(ctx context.Context, ack *api.Appended, s *ledger.Session, set *turns.Settings, head lineage.Node, turn *api.AppendTurn) (next *paths.Size, err error) {
	g, pol, err := ss.reader.Gauge(ctx, s, set, head)
	if err != nil {
		return nil, err
	}
	ack.Context = g
	ack.Compaction.State = "idle"
	l, err := ss.reader.ContextLoad(s, g, head)
	if err != nil {
		return nil, err
	}
	var reported uint64
	if turn == nil {
		reported, err = ss.reader.ReportedTokens(s, set, head)
	} else {
		reported, err = ss.reader.ReportedTokensAfter(s, set, head, turn)
	}
	if err != nil {
		return nil, err
	}
	l.Reported = reported // what the path says of it, where that is known, goes before
	p := ss.paths.EmptyPath(s, set, pol, head)
	large := false
	if needs := plan.NeedsPath(pol, l); needs || plan.NeedsPath(pol, view.Load{Tokens: math.MaxUint64}) { // or will
		m, ok := ss.paths.SizeAt(s, head, p, pol, turn)
		if ok {
			next = &m
		}
		if ok && needs {
			l, large = m.Load, m.Large && pol.Mode != policy.Manual
			p.Sums = &m.Sums
			if !m.InForce.IsZero() {
				p.InForce = &view.InForce{Body: turns.CompactionBody{TokensAfter: m.After}}
			}
		}
	}
	if _, due := plan.DueAt(p, pol, l); due || large {
		ack.Compaction.State = ss.compactions.DueState(s.ID, head.Ref.Turn)
	}
	if ack.Flush, err = ss.compactions.FlushState(s, pol, head, plan.FlushDue(p, pol, l)); err != nil {
		return nil, err
	}
	if ss.compactions.IsPreparing(s.ID) {
		ack.Compaction.State = "preparing"
	}
	ack.Context = reader.WithReported(g, p.Overhead, reported)
	return next, nil
}

// duplicateAck returns the ack of a stored turn, as its first append got it.
func (ss *Sessions) duplicateAck(ctx context.Context, c reader.Caller, s *ledger.Session, ev *turns.Event) (*api.Appended, error) {
	t, err := ss.reader.Projections.Turn(ev.Ref())
	if err != nil {
		return nil, err
	}
	_, set, err := ss.reader.SettingsInForce(ctx, s)
	if err != nil {
		return nil, err
	}
	ack := &api.Appended{ID: ev.ID, Session: s.ID, Depth: ev.Depth, Hash: t.Hash, Position: page.FormatPosition(t.Seq), Duplicate: true}
	if !ev.Parent.IsZero() {
		ack.Parent = &ev.Parent.Turn
	}
	if ev.Open+ev.Late+ev.Abandoned > 0 {
		changes, err := ss.paths.CallsAfter(ctx, c.Tenant, s, ev)
		if err != nil && !errors.Is(err, turns.ErrErased) { // the calls of an erased ancestor can't be read
			return nil, err
		}
		ack.Open, ack.Abandoned, ack.Late = changes.Open, changes.Abandoned, changes.Late
		ss.page.TrimCalls(ack)
	}
	_, err = ss.fillGauge(ctx, ack, s, &set, t.Node, nil)
	return ack, err
}
