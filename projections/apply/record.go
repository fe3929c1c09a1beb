package apply

import (
	"fmt"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// EventAt returns the stored bytes of the event at index of a session's chain.
// Errors: [ledger.ErrNotFound].
func (v View) EventAt(session turns.ID, index uint64) ([]byte, error) {
	b, ok, err := db.Get(v.r, rows.Number(rows.Events.Key(session), index))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: event %d of session %s", ledger.ErrNotFound, index, session)
	}
	return v.Follow(session, b)
}

// Follow returns the payload that a row of an event has, or points to.
func (v View) Follow(session turns.ID, row []byte) ([]byte, error) {
	b, at, err := rows.Follow(session, row)
	if err != nil {
		return nil, &db.ReadError{Err: err}
	}
	if at == nil {
		return b, nil
	}
	b, ok, err := db.Get(v.r, at)
	if err == nil && !ok {
		err = fmt.Errorf("%w: projections lack a turn's event of session %s", ledger.ErrCorrupt, session)
	}
	return b, err
}

// Record returns the copy of the record at seq. Errors: [ledger.ErrNotFound].
func (v View) Record(seq uint64) (ledger.Record, error) {
	b, ok, err := db.Get(v.r, rows.Number(rows.Records.Key(), seq))
	if err != nil {
		return ledger.Record{}, err
	}
	if !ok {
		return ledger.Record{}, fmt.Errorf("%w: record %d", ledger.ErrNotFound, seq)
	}
	p, err := rows.DecodePlace(seq, b)
	if err != nil {
		return ledger.Record{}, &db.ReadError{Err: err}
	}
	r := ledger.Record{Seq: seq, Subject: p.Subject, Payload: p.Payload}
	if r.Subject == "" {
		row, err := v.Session(p.Session)
		if err != nil {
			return ledger.Record{}, err
		}
		r.Subject = row.Subject()
		if r.Payload, err = v.EventAt(p.Session, p.Index); err != nil {
			return ledger.Record{}, err
		}
	}
	r.Hash = turns.HashEvent(r.Payload)
	return r, nil
}

// Tail returns the position of the last event of a chain that was applied, whatever the
// shard in subject; 0 if there is none.
func (v View) Tail(subject string) (uint64, error) {
	tenant, chain, err := ledger.ParseSubject(subject)
	if err != nil {
		return 0, err
	}
	switch chain.Entity {
	case turns.SessionEntity:
		id, err := turns.ParseID(chain.ID)
		if err != nil {
			return 0, err
		}
		row, err := v.Session(id)
		if err != nil || row.Tenant != tenant {
			return 0, err
		}
		return row.Tail.Seq, nil
	case turns.LabelEntity:
		row, err := v.Label(tenant, chain.ID)
		return row.Tail.Seq, err
	case turns.TenantEntity:
		row, err := v.Policies(tenant)
		return row.Tail.Seq, err
	case turns.ChannelEntity:
		row, err := v.Channel(tenant, chain.ID)
		return row.Tail.Seq, err
	case turns.AgentEntity:
		row, err := v.Memories(tenant, chain.ID)
		return row.Tail.Seq, err
	}
	return 0, nil
}

// WhyAside returns why the chain on a subject was set aside, "" if it was not.
func (v View) WhyAside(subject string) (string, error) {
	b, ok, err := v.row(rows.AsideChains.TextKey(subject))
	if err != nil || !ok {
		return "", err
	}
	return string(b[8:]), nil
}

// Lost returns what a chain that was set aside has lost.
func (v View) Lost(subject string) (l rows.Loss, err error) {
	b, ok, err := db.Get(v.side, rows.Losses.TextKey(subject))
	if err != nil || !ok {
		return l, err
	}
	if err := rows.Decode(b, &l); err != nil {
		return l, badRow("projection row of what %s has lost: %v", subject, err)
	}
	return l, nil
}
