package projections

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/fxamacker/cbor/v2"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// applier folds records into one batch. Its reads see what the batch has
// written so far.
type applier struct {
	view
	batch    *pebble.Batch
	sessions map[turns.ID]*ledger.Session // rows touched by the batch, written at its end
	aside    int                          // chains set aside by the batch
}

func newApplier(db *pebble.DB) *applier {
	b := db.NewIndexedBatch()
	return &applier{view: view{b}, batch: b, sessions: make(map[turns.ID]*ledger.Session)}
}

// apply folds in one record. What is wrong with one chain sets that chain
// aside and stops no other; an error here is the store's own.
func (a *applier) apply(r ledger.Record) error {
	tenant, chain, err := ledger.ParseSubject(r.Subject)
	if err != nil {
		return a.setAside(r, chain, err)
	}
	if why, err := a.why(chain); err != nil || why != "" {
		if err != nil {
			return err
		}
		return a.keep(r)
	}
	if got := turns.HashEvent(r.Payload); got != r.Hash {
		return a.setAside(r, chain, fmt.Errorf("%w: record %d has hash %v, stored beside it is %v", ledger.ErrCorrupt, r.Seq, got, r.Hash))
	}
	e, err := turns.Decode(r.Payload)
	if err == nil && e.Chain != chain {
		err = fmt.Errorf("%w: record %d on subject %s holds an event of chain %s", ledger.ErrCorrupt, r.Seq, r.Subject, e.Chain)
	}
	if err != nil {
		return a.setAside(r, chain, err)
	}
	switch chain.Entity {
	case turns.SessionEntity:
		err = a.session(tenant, r, e)
	case turns.LabelEntity:
		err = a.label(tenant, r, e)
	default:
		return a.keep(r)
	}
	if errors.Is(err, ledger.ErrCorrupt) || errors.Is(err, ledger.ErrUnsupported) || errors.Is(err, ledger.ErrMalformed) || errors.Is(err, lineage.ErrUnknown) {
		return a.setAside(r, chain, err)
	}
	return err
}

func (a *applier) session(tenant string, r ledger.Record, e *turns.Event) error {
	id, _ := e.Chain.Session()
	s, err := a.row(id)
	if err != nil {
		return err
	}
	next := *s
	if err := next.Apply(tenant, r.Seq, r.Hash, e); err != nil {
		return err
	}
	if next.Subject() != r.Subject {
		return fmt.Errorf("%w: session %s is on subject %s, it belongs on %s", ledger.ErrCorrupt, id, r.Subject, next.Subject())
	}
	if e.Kind == turns.KindOpened {
		if err := a.opened(tenant, e); err != nil {
			return err
		}
	}
	row := append([]byte{0}, r.Payload...)
	if e.Kind.IsTurn() {
		if err := a.turn(&next, r, e); err != nil {
			return err
		}
		row = pointerTo(e.Segment, e.Depth)
	}
	*s = next
	return errors.Join(
		a.batch.Set(num(key(pEvent, id), e.Index), row, nil),
		a.batch.Set(key(pID, id, e.ID), num(nil, e.Index), nil),
		a.place(r.Seq, place{Session: id, Index: e.Index}),
	)
}

func (a *applier) opened(tenant string, e *turns.Event) error {
	id, _ := e.Chain.Session()
	err := a.batch.Set(append(textKey(pAgent, tenant, e.Agent), id[:]...), nil, nil)
	if f := e.ForkOf; f != nil {
		at, perr := a.Turn(f.At)
		switch {
		case errors.Is(perr, lineage.ErrUnknown):
			return fmt.Errorf("%w: session %s forks from %s, which is not stored before it", ledger.ErrCorrupt, id, f.At)
		case perr != nil:
			return perr
		case at.Hash != f.Hash:
			return fmt.Errorf("%w: session %s forks from %s with hash %v, stored is %v", ledger.ErrCorrupt, id, f.At, f.Hash, at.Hash)
		}
		err = errors.Join(err, a.batch.Set(key(pFork, f.At.Session, f.At.Turn, id), nil, nil))
	}
	return err
}

func (a *applier) turn(s *ledger.Session, r ledger.Record, e *turns.Event) error {
	var parent lineage.Node
	if !e.Parent.IsZero() {
		p, err := a.Turn(e.Parent)
		if err != nil {
			return err
		}
		parent = p.Node
	}
	forget, err := s.Ignores(e.Parent.Session, func(id turns.ID) (ledger.Session, error) {
		up, err := a.row(id) // the batch may hold what the store does not yet
		if err != nil {
			return ledger.Session{}, err
		}
		return *up, nil
	})
	if err != nil {
		return err
	}
	node, err := lineage.Grow(a, parent, e, forget)
	if err != nil {
		return err
	}
	t := Turn{Node: node, Index: e.Index, Seq: r.Seq, Hash: r.Hash, Open: e.Open, Recorded: e.Recorded}
	v, err := t.encode()
	if err != nil {
		return err
	}
	ref := e.Ref()
	err = errors.Join(
		a.batch.Set(key(pNode, ref.Session, ref.Turn), v, nil),
		a.batch.Set(num(key(pTurn, ref.Session, e.Segment), e.Depth), r.Payload, nil),
	)
	if !e.Parent.IsZero() {
		err = errors.Join(err, a.batch.Set(key(pChild, e.Parent.Session, e.Parent.Turn, ref.Session, ref.Turn), nil, nil))
	}
	if e.Kind == turns.KindCompaction {
		err = errors.Join(err, a.batch.Set(num(key(pCompaction, ref.Session), e.Index), ref.Turn[:], nil))
		if th := e.Span.Through; !th.IsZero() {
			err = errors.Join(err, a.batch.Set(key(pCovered, th.Session, th.Turn, ref.Session, ref.Turn), nil, nil))
		}
	}
	return err
}

func (a *applier) label(tenant string, r ledger.Record, e *turns.Event) error {
	k := textKey(pLabel, tenant, e.Chain.ID)
	l, err := a.labelRow(k)
	if err != nil {
		return err
	}
	first := l.Session.IsZero()
	switch {
	case first && e.Index != 0, !first && e.Index != l.Tail.Index+1:
		return fmt.Errorf("%w: event %s of chain %s has index %d after %d", ledger.ErrCorrupt, e.ID, e.Chain, e.Index, l.Tail.Index)
	case !first && e.Prev != l.Tail.Hash:
		return fmt.Errorf("%w: event %s of chain %s follows %v, the tail is %v", ledger.ErrCorrupt, e.ID, e.Chain, e.Prev, l.Tail.Hash)
	}
	v, err := cbor.Marshal(Label{Session: e.To.Session, Tail: ledger.Tail{Seq: r.Seq, Index: e.Index, Hash: r.Hash}})
	if err != nil {
		return err
	}
	return errors.Join(a.batch.Set(k, v, nil), a.keep(r))
}

// row is the session's row as the batch sees it, to be changed in place.
func (a *applier) row(id turns.ID) (*ledger.Session, error) {
	if s, ok := a.sessions[id]; ok {
		return s, nil
	}
	s, err := a.view.Session(id)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	a.sessions[id] = &s
	return &s, nil
}

// keep stores a record that no row is made of, so that every record of the
// log has its copy here.
func (a *applier) keep(r ledger.Record) error {
	return a.place(r.Seq, place{Subject: r.Subject, Payload: r.Payload})
}

func (a *applier) place(seq uint64, p place) error {
	v, err := cbor.Marshal(p)
	if err != nil {
		return err
	}
	return a.batch.Set(num([]byte{pSeq}, seq), v, nil)
}

// setAside stops the projection of one chain at a record that can't be
// applied, and says why. The chain is read-only from then on.
func (a *applier) setAside(r ledger.Record, c turns.Chain, why error) error {
	a.aside++
	return errors.Join(a.keep(r), a.batch.Set(textKey(pAside, c.String()), []byte(why.Error()), nil))
}

// commit writes the rows and the checkpoint, in one batch with everything else.
func (a *applier) commit(cp Checkpoint) error {
	for id, s := range a.sessions {
		if s.ID.IsZero() {
			continue // its first event was set aside
		}
		v, err := cbor.Marshal(s)
		if err != nil {
			return err
		}
		if err := a.batch.Set(key(pSession, id), v, nil); err != nil {
			return err
		}
	}
	if err := putCheckpoint(a.batch, cp); err != nil {
		return err
	}
	return a.batch.Commit(pebble.NoSync)
}
