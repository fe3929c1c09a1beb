package apply

import (
	"errors"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// setAside stops the projection of one chain at a record that can't be applied, and
// stores the reason. The chain is read-only from then on. The subject names the chain,
// so that a second chain of the same id, opened elsewhere, does not stop the first.
func (a *Batch) setAside(r ledger.Record, why error) error {
	x := rows.AsideChain{Subject: r.Subject, Seq: r.Seq, Why: why.Error()}
	a.asideChains = append(a.asideChains, x)
	return errors.Join(a.keepAside(r), a.setRow(rows.AsideChains.TextKey(r.Subject), x.Encode()))
}

// keepAside stores a record of a chain that is set aside. An event that follows a loss,
// and whose hash the next event of the chain confirms, if there is one, can be read by
// its id. Nothing else of it is in a row: no session, no path and no list has it.
func (a *Batch) keepAside(r ledger.Record) error {
	if err := a.keep(r); err != nil {
		return err
	}
	tenant, chain, err := ledger.ParseSubject(r.Subject)
	id, isSession := chain.Session()
	if err != nil || !isSession {
		return nil
	}
	s, err := a.Session(id)
	if errors.Is(err, ledger.ErrNotFound) || err == nil && (s.Tenant != tenant || s.Subject() != r.Subject) {
		return nil // no session is on this chain
	}
	l, lerr := a.Lost(r.Subject)
	if err = errors.Join(err, lerr); err != nil {
		return err
	}
	if l.Tail.Seq == 0 {
		l.Tail = s.Tail
	}
	e, derr := turns.Decode(r.Payload)
	switch {
	case derr != nil || e.Chain != chain || turns.HashEvent(r.Payload) != r.Hash:
		l.Tail = ledger.Tail{Seq: r.Seq, Index: l.Tail.Index + 1}
		l.Add(rows.LostEvent{Index: l.Tail.Index, Seq: r.Seq})
	case e.Index <= l.Tail.Index, e.Index == l.Tail.Index+1 && !l.Tail.Hash.IsZero() && e.Prev != l.Tail.Hash:
		return nil // it contradicts what was read before it
	default:
		if err := a.afterLoss(r, e, &l); err != nil {
			return err
		}
	}
	v, err := rows.Encode(l)
	if err != nil {
		return err
	}
	return a.side.Set(rows.Losses.TextKey(r.Subject), v)
}

// afterLoss notes an event of a chain that is set aside.
func (a *Batch) afterLoss(r ledger.Record, e *turns.Event, l *rows.Loss) error {
	missing := e.Index - l.Tail.Index - 1
	for i := range min(missing, rows.MaxLost) {
		l.Add(rows.LostEvent{Index: l.Tail.Index + 1 + i})
	}
	l.Number += missing - min(missing, rows.MaxLost)
	if n := len(l.Events); n > 0 && l.Events[n-1].Index == e.Index-1 {
		l.Events[n-1].Hash = e.Prev
	}
	l.Tail = ledger.Tail{Seq: r.Seq, Index: e.Index, Hash: r.Hash}
	if !e.Kind.IsTurn() || l.Number == 0 { // an event that breaks a rule is served to nobody
		return nil
	}
	id := e.Ref().Session
	err := a.side.Set(append(rows.AfterLoss.TextKey(r.Subject), e.ID[:]...), rows.Number(nil, r.Seq))
	if e.Parent.Session != id {
		return err
	}
	up := e.Parent.Turn
	err = errors.Join(err, a.side.Set(append(rows.ContinuedAfterLoss.TextKey(r.Subject), up[:]...), nil))
	_, uerr := a.Turn(e.Parent)
	if !errors.Is(uerr, lineage.ErrUnknown) {
		return errors.Join(err, uerr)
	}
	_, isLeft, gerr := db.Get(a.side, append(rows.AfterLoss.TextKey(r.Subject), up[:]...))
	if gerr == nil && !isLeft && len(l.Turns) < rows.MaxLost {
		l.Turns = append(l.Turns, up)
	}
	return errors.Join(err, gerr)
}
