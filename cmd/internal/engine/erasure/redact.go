package erasure

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/erasure/mark"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Redact is turn.redact.
//
// Crash states: an event that redacts is stored before the key of the one that it stands for is taken. In between reads
// have the redacted body already, and [Erasure.Finish] takes the key at the next start. A call that is
// cut off after some events has redacted these, and a call again the rest.
//
// A summary that is being made of what was there before is stored behind it, and a call again finds it.
//
// Errors: [api.Denied] for an agent, [api.Unsupported] where nothing is sealed, [ledger.ErrErased] for a session that is erased.
func (er *Erasure) Redact(ctx context.Context, c reader.Caller, id turns.ID, req api.RedactTurn, canonical []byte) (*api.Redacted, error) {
	if err := er.May(c, req.Ground); err != nil {
		return nil, err
	}
	if err := checkRedact(req); err != nil {
		return nil, err
	}
	s, err := er.reader.FindSession(ctx, c, id, true)
	if err != nil {
		return nil, err
	}
	if s, err = er.caughtUp(ctx, s); err != nil {
		return nil, err
	}
	if s.State == turns.Erased {
		return nil, writer.CheckOpen(s)
	}
	var text *mark.Text
	if req.Text != "" {
		text = mark.NewText(req.Text)
	}
	r := &redaction{Erasure: er, text: text, ctx: ctx, caller: c, req: req, canonical: canonical, out: &api.Redacted{Session: s.ID, DryRun: req.DryRun, Events: []api.RedactedEvent{}}}
	err = r.run(s)
	if !req.DryRun && (err == nil || r.stored) { // what was redacted before an error is gone too
		terr := er.takeRedacted(ctx, s)
		if terr == nil {
			terr = er.writer.AwaitCopies(ctx)
		}
		if terr == nil {
			terr = er.publishRedactions(s, req.Ground)
		}
		err = errors.Join(err, terr)
		er.content.NoRedactions(false) // there are new ones
	}
	if err == nil {
		err = er.redactionStores(ctx, s.ID, req, r.out)
	}
	if err != nil && r.stored {
		err = writer.AfterCommit(err)
	}
	if err != nil {
		return nil, err
	}
	return r.out, nil
}

// caughtUp returns a session with all that was acknowledged of it.
func (er *Erasure) caughtUp(ctx context.Context, s *ledger.Session) (*ledger.Session, error) {
	if _, err := er.reader.CatchUp(ctx, s.Tenant, s.ID); err != nil {
		return nil, err
	}
	now, err := er.reader.Projections.Session(s.ID)
	return &now, err
}

// May refuses who may not erase, and where nothing can be.
func (er *Erasure) May(c reader.Caller, ground string) error {
	if !c.Operator() {
		return &api.Error{Code: api.Denied, Message: "only the operator erases"}
	}
	if er.content.Keys == nil {
		return &api.Error{Code: api.Unsupported, Message: "this ledger does not seal what it stores (seal off), so no key can be destroyed"}
	}
	if er.Why != "" {
		return &api.Error{Code: api.Unsupported, Message: er.Why}
	}
	if !isGround(ground) {
		return api.FieldErrorf("/ground", "a ground is a code of letters, digits, dots, dashes and underscores, at most 64: it stays when the content is gone")
	}
	return nil
}

func checkRedact(req api.RedactTurn) error {
	switch n := len(req.Text); {
	case n > 0 && len(req.Parts)+len(req.Spans) > 0:
		return api.FieldErrorf("/text", "a text goes without parts and spans")
	case n == 0 && req.Turn.IsZero():
		return api.FieldErrorf("/turn", "missing: name a turn, or a text")
	case n > 0:
		return mark.Check("/text", req.Text)
	}
	return nil
}

// redaction is one call of turn.redact.
type redaction struct {
	*Erasure
	ctx    context.Context
	caller reader.Caller
	req    api.RedactTurn
	out    *api.Redacted
	stored bool // an event

	canonical []byte // the request
	text      *mark.Text
	taking    []uint64 // ordinals of the events whose keys this call takes
}

// run redacts one event, or each of the session, and those that are stored meanwhile.
func (r *redaction) run(s *ledger.Session) error {
	if !r.req.Turn.IsZero() {
		index, err := r.reader.Projections.Index(s.ID, r.req.Turn)
		if errors.Is(err, ledger.ErrNotFound) {
			return &turns.FieldError{Field: "/turn", Reason: fmt.Sprintf("session %s has no event %s", s.ID, r.req.Turn), Kind: ledger.ErrNotFound}
		}
		if err != nil {
			return err
		}
		return r.event(s, index)
	}
	for index := uint64(0); ; index++ {
		if err := r.ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		}
		if index > s.Tail.Index { // more came meanwhile, those that redact among them
			now, err := r.caughtUp(r.ctx, s)
			if err != nil {
				return err
			}
			if index > now.Tail.Index {
				return nil
			}
			s = now
		}
		if err := r.event(s, index); err != nil {
			return err
		}
	}
}

// event redacts the event at an index of the chain.
func (r *redaction) event(s *ledger.Session, index uint64) error {
	payload, err := r.reader.Projections.EventAt(s.ID, index)
	if err != nil {
		return err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return err
	}
	if ev.Kind == turns.KindRedacted && !r.req.Turn.IsZero() {
		return api.FieldErrorf("/turn", "event %s redacts another one", ev.ID)
	}
	if r.req.Turn.IsZero() && (ev.Kind == turns.KindRedacted || len(ev.Body) == 0) {
		return nil
	}
	by := &turns.Event{ID: ev.ID, Kind: turns.KindRedacted, Chain: ev.Chain} // of the dry run
	if r.req.DryRun {
		_, report, err := r.marked(s, ev, by)
		if report != nil {
			r.out.Events = append(r.out.Events, *report)
		}
		return r.unreadable(err)
	}
	as := r.caller
	as.Agent = s.Agent // the event is on its session's chain; Actor says who stored it
	var report *api.RedactedEvent
	err = r.writer.Mutate(request.Ending(r.ctx), as, s.ID, func(_ *writer.Chain, now *ledger.Session) (*writer.Draft, error) {
		if now.State == turns.Erased {
			return nil, writer.CheckOpen(now)
		}
		request := writer.Request{Verb: "turn.redact", Canonical: r.canonical}
		if !r.req.Turn.IsZero() { // else it stores an event for each
			request.ID = r.req.ID
		}
		if done, err := r.writer.StoredEvent(now, request); done != nil || err != nil {
			return nil, err
		}
		id, err := r.writer.NewID(request.ID)
		if err != nil {
			return nil, err
		}
		by := &turns.Event{ID: id, Kind: turns.KindRedacted, Chain: ev.Chain, To: turns.Ref{Session: s.ID, Turn: ev.ID}}
		if !request.ID.IsZero() {
			by.Digest = request.Digest()
		}
		body, found, err := r.marked(now, ev, by)
		if report = found; body == nil || err != nil {
			return nil, err
		}
		if err := r.checkTake(now, index); err != nil {
			return nil, err
		}
		r.content.NoRedactions(false)
		return &writer.Draft{Event: by, Body: body, Keys: ev.Keys, Actor: r.caller.Actor(), After: func(seq uint64, _ turns.Hash) {
			r.stored, report.Position = true, page.FormatPosition(seq)
		}}, nil
	})
	if report != nil && err == nil {
		r.out.Events = append(r.out.Events, *report)
	}
	return r.unreadable(err)
}

// unreadable passes over an event that nobody can read any more, where all of a session are looked at: a summary that was sealed under
// the key of a session that was erased too.
func (r *redaction) unreadable(err error) error {
	if r.req.Turn.IsZero() && errors.Is(err, ledger.ErrErased) {
		if s, serr := r.reader.Projections.Session(r.out.Session); serr == nil && s.State != turns.Erased {
			return nil
		}
	}
	return err
}

// checkTake refuses to redact an event whose key can't be taken, as too much was taken already.
func (r *redaction) checkTake(s *ledger.Session, index uint64) error {
	k, err := r.content.Key(s.ID)
	if err == nil {
		err = k.CheckTake(s.Tail.Index+2, append(r.taking, index)...)
	}
	if errors.Is(err, turns.ErrTooLarge) {
		err = api.Errorf(api.TooLarge, nil, "session %s: %v; erase the session, or fork it behind what is to stay and erase it then", s.ID, err)
	}
	if err == nil {
		r.taking = append(r.taking, index)
	}
	return err
}
