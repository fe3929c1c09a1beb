package erasure

import (
	"context"
	"errors"
	"time"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// publishRedactions puts the redactions of a session on the list.
func (er *Erasure) publishRedactions(s *ledger.Session, ground string) error {
	if er.Publish == nil {
		return nil
	}
	rows, err := er.redactionsOf(s, ground)
	if err != nil {
		return err
	}
	return er.Publish(rows)
}

// redactionsOf returns the rows of the list for the redactions of a session.
func (er *Erasure) redactionsOf(s *ledger.Session, ground string) (rows []Erased, err error) {
	for x, err := range er.reader.Projections.Redactions(s.ID) {
		if err != nil {
			return nil, err
		}
		if !x.Newest {
			continue
		}
		payload, err := er.reader.Projections.EventAt(s.ID, x.By)
		if err != nil {
			return nil, err
		}
		ev, err := turns.Decode(payload)
		if err != nil {
			return nil, err
		}
		rows = append(rows, Erased{Session: s.ID, Event: x.Event, Tenant: s.Tenant, Hash: turns.HashEvent(payload), Position: x.By, Time: time.Unix(0, ev.Recorded).UTC(), Ground: ground})
	}
	return rows, nil
}

// redactAgain takes out all of an event that was redacted, and that a backup from before brought back.
func (er *Erasure) redactAgain(ctx context.Context, s *ledger.Session, event turns.ID) error {
	r := &redaction{Erasure: er, ctx: ctx, caller: reader.Caller{Tenant: s.Tenant, Agent: api.Operator}, req: api.RedactTurn{Turn: event}, out: new(api.Redacted)}
	return r.run(s)
}

// finishRedactions does for redactions what [Erasure.Finish] does for erasures.
func (er *Erasure) finishRedactions(ctx context.Context, listed []Erased) error {
	for _, e := range listed {
		s, err := er.reader.Projections.Session(e.Session)
		if errors.Is(err, ledger.ErrNotFound) || err == nil && s.State == turns.Erased {
			continue
		}
		if err != nil {
			return err
		}
		_, known, err := er.reader.Projections.RedactedBy(e.Session, e.Event)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		if _, err := er.reader.Projections.Index(e.Session, e.Event); errors.Is(err, ledger.ErrNotFound) {
			continue
		} else if err != nil {
			return err
		}
		er.logger.Warn("an event that was redacted is here again, from a backup: all of it is taken out", "session", s.ID, "event", e.Event, "ground", e.Ground)
		switch err := er.redactAgain(ctx, &s, e.Event); {
		case errors.Is(err, ledger.ErrErased), errors.Is(err, ledger.ErrUnsupported), errors.Is(err, ledger.ErrTooLarge): // no start may fail for it
			er.logger.Error("an event that was redacted can't be taken out again; erase the session", "session", s.ID, "event", e.Event, "err", err)
			continue
		case err != nil:
			return err
		}
		if _, err := er.reader.CatchUp(ctx, s.Tenant, s.ID); err != nil { // its row is read below
			return err
		}
	}
	any := false
	was := turns.ID{}
	var rows []Erased // published together: the list is written whole
	var failed error
	for x, err := range er.reader.Projections.Redactions(turns.ID{}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if any = true; x.Session == was {
			continue
		}
		was = x.Session
		s, err := er.reader.Projections.Session(x.Session)
		if err != nil {
			return err
		}
		if s.State == turns.Erased {
			continue
		}
		taken, err := er.areTaken(s.ID)
		if err == nil && !taken {
			err = er.takeRedacted(ctx, &s)
		}
		if errors.Is(err, turns.ErrTooLarge) { // no start may fail for it
			er.logger.Error("keys of redacted events can't be taken: their content can still be opened by who has the keys; erase the session", "session", s.ID, "err", err)
			err = nil
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		more, err := er.redactionsOf(&s, "")
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	er.content.NoRedactions(!any)
	if er.Publish != nil && len(rows) > 0 {
		failed = errors.Join(failed, er.Publish(rows))
	}
	return failed
}
