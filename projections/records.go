package projections

import (
	"fmt"
	"iter"
	"strings"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Record returns the copy of the record at seq: its chain's session and ordinal, or
// its subject, and its payload. Errors: [ledger.ErrNotFound].
func (s *Store) Record(seq uint64) (ledger.Record, error) {
	r, err := s.view().record(seq)
	s.read.Add(int64(len(r.Payload)))
	return r, err
}

func (v view) record(seq uint64) (ledger.Record, error) {
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
		if r.Payload, err = v.eventAt(p.Session, p.Index); err != nil {
			return ledger.Record{}, err
		}
	}
	r.Hash = turns.HashEvent(r.Payload)
	return r, nil
}

// Last returns the last record of a chain that was applied, whatever the shard in subject.
// Errors: [ledger.ErrNotFound], [ledger.ErrMalformed].
func (s *Store) Last(subject string) (ledger.Record, error) {
	seq, err := s.view().tail(strings.Replace(subject, ".*.", ".00.", 1))
	if err == nil && seq == 0 {
		err = fmt.Errorf("%w: record of %s", ledger.ErrNotFound, subject)
	}
	if err != nil {
		return ledger.Record{}, err
	}
	return s.Record(seq)
}

// tail returns the position of the last event of a chain that was applied, whatever the
// shard in subject; 0 if there is none.
func (v view) tail(subject string) (uint64, error) {
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
// The shard of the subject may be "*".
func (s *Store) WhyAside(subject string) (string, error) {
	if !strings.Contains(subject, "*") || s.SetAside() == 0 {
		return s.view().why(subject)
	}
	for a, err := range s.AllAside() {
		if err != nil {
			return "", err
		}
		if tenant, chain, err := ledger.ParseSubject(a.Subject); err == nil && ledger.AnyShard(tenant, chain) == subject {
			return a.Why, nil
		}
	}
	return "", nil
}

// AllAside yields the chains that were set aside, by subject.
func (s *Store) AllAside() iter.Seq2[rows.AsideChain, error] { return db.AllAside(s.db()) }

func (v view) why(subject string) (string, error) {
	b, ok, err := v.row(rows.AsideChains.TextKey(subject))
	if err != nil || !ok {
		return "", err
	}
	return string(b[8:]), nil
}
