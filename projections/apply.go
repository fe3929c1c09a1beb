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
	batch       *pebble.Batch
	aside       bool         // whether any chain was set aside before the batch
	asideChains []AsideChain // chains set aside by the batch
}

func newApplier(d *database, ledgerID turns.ID, aside int) *applier {
	b := d.NewIndexedBatch()
	c := &changes{chains: make(map[turns.ID]*chain), turns: make(map[turns.Ref]*Turn)}
	return &applier{view: view{b, ledgerID, d.recent, c}, batch: b, aside: aside > 0}
}

// apply folds in one record. A record that breaks a rule sets its chain aside, before
// anything of the record is in a row, and stops no other chain. A returned error is
// the store's own.
func (a *applier) apply(r ledger.Record) error {
	tenant, chain, err := ledger.ParseSubject(r.Subject)
	if err != nil {
		return a.setAside(r, err)
	}
	if a.aside || len(a.asideChains) > 0 {
		if why, err := a.why(r.Subject); err != nil {
			return err
		} else if why != "" {
			return a.keepAside(r)
		}
	}
	if got := turns.HashEvent(r.Payload); got != r.Hash {
		return a.setAside(r, fmt.Errorf("%w: record %d has hash %v, stored with it is %v", ledger.ErrCorrupt, r.Seq, got, r.Hash))
	}
	e := a.recent.takeEvent(r.Hash)
	if e == nil {
		e, err = turns.Decode(r.Payload)
	}
	if err == nil && e.Chain != chain {
		err = fmt.Errorf("%w: record %d on subject %s holds an event of chain %s", ledger.ErrCorrupt, r.Seq, r.Subject, e.Chain)
	}
	if err != nil {
		return a.setAside(r, err)
	}
	switch chain.Entity {
	case turns.SessionEntity, turns.LabelEntity, turns.TenantEntity, turns.AgentEntity, turns.ChannelEntity:
	default:
		return a.keep(r)
	}
	next, err := ledger.Admit(a, r.Subject, r.Seq, r.Hash, e)
	switch {
	case errors.Is(err, ledger.ErrDuplicateOpening):
		return a.keep(r) // it opens nothing, and harms no chain
	case err != nil && ledger.IsRefusal(err):
		return a.setAside(r, err)
	case err != nil:
		return err
	case chain.Entity == turns.LabelEntity:
		return a.label(tenant, r, e, &next.Label)
	case chain.Entity == turns.TenantEntity:
		return a.policy(tenant, r, e, &next)
	case chain.Entity == turns.ChannelEntity:
		return a.received(tenant, r, e, &next.Channel)
	case chain.Entity == turns.AgentEntity:
		return a.memories(tenant, r, e, &next)
	}
	return a.session(r, e, &next)
}

func (a *applier) session(r ledger.Record, e *turns.Event, next *ledger.Admitted) (err error) {
	id := next.Session.ID
	newest, err := a.newestID(id)
	if err != nil {
		return err
	}
	if e.ID.Compare(newest) > 0 {
		newest = e.ID
	}
	a.changes.chains[id] = &chain{next.Session, newest}
	var row []byte
	switch {
	case e.Kind == turns.KindOpened:
		err = errors.Join(a.opened(&next.Session), a.batch.Set(num(key(pSettings, id), e.Index), nil, nil))
	case e.Kind == turns.KindChanged:
		err = a.batch.Set(num(key(pSettings, id), e.Index), nil, nil)
	case e.Kind == turns.KindMoved:
		err = a.batch.Set(num(key(pMove, id, e.To.Session, e.To.Turn), e.Index), nil, nil)
	case e.Kind.IsTurn():
		err = errors.Join(a.turn(next.Node, r, e), a.external(next.Session.Tenant, e), a.learned(&next.Session, e, r.Seq))
		row = pointerTo(e.Segment, e.Depth)
	}
	if row == nil {
		row = append([]byte{0}, r.Payload...)
	}
	switch e.Kind {
	case turns.KindOpened, turns.KindChanged, turns.KindState:
		if next.Session.Timed && !next.Session.Final() {
			err = errors.Join(err, a.batch.Set(key(pTimed, id), nil, nil))
		} else {
			err = errors.Join(err, a.batch.Delete(key(pTimed, id), nil))
		}
	}
	return errors.Join(err,
		a.batch.Set(num(key(pEvent, id), e.Index), row, nil),
		a.batch.Set(key(pID, id, e.ID), num(nil, e.Index), nil),
		a.place(r.Seq, place{Session: id, Index: e.Index}),
	)
}

func (a *applier) opened(s *ledger.Session) error {
	err := a.batch.Set(append(textKey(pAgent, s.Tenant, s.Agent), s.ID[:]...), nil, nil)
	if f := s.ForkOf; f != nil {
		err = errors.Join(err, a.batch.Set(key(pFork, f.At.Session, f.At.Turn, s.ID), nil, nil))
	}
	return err
}

func (a *applier) turn(node lineage.Node, r ledger.Record, e *turns.Event) error {
	t := &Turn{Node: node, Index: e.Index, Seq: r.Seq, Hash: r.Hash, Open: e.Open, Recorded: e.Recorded}
	switch {
	case e.Kind != turns.KindTurn:
	case e.Usage != nil && e.Usage.InputTokens > 0:
		t.Input, t.Reported = e.Usage.InputTokens, node.Ref
	case !e.Parent.IsZero():
		up, err := a.rowOf(e.Parent)
		if err != nil {
			return err
		}
		t.Reported = up.Reported
	}
	ref := node.Ref
	a.changes.turns[ref] = t
	err := errors.Join(
		a.batch.Set(key(pNode, ref.Session, ref.Turn), t.encode(), nil),
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

func (a *applier) label(tenant string, r ledger.Record, e *turns.Event, l *Label) error {
	v, err := cbor.Marshal(l)
	if err != nil {
		return err
	}
	return errors.Join(a.batch.Set(textKey(pLabel, tenant, e.Chain.ID), v, nil), a.keep(r))
}

func (a *applier) policy(tenant string, r ledger.Record, e *turns.Event, next *ledger.Admitted) error {
	row, err := cbor.Marshal(next.Policies)
	if err != nil {
		return err
	}
	at := num(nil, r.Seq)
	err = errors.Join(a.batch.Set(textKey(pPolicies, tenant), row, nil), a.batch.Set(append(textKey(pPolicyID, tenant), e.ID[:]...), at, nil), a.keep(r))
	by := textKey(pPoliciesBy, tenant, e.Actor)
	n, _, err2 := a.number(by)
	if err2 != nil {
		return err2
	}
	err = errors.Join(err, a.batch.Set(by, num(nil, n+1), nil))
	content := append(textKey(pContent, tenant), e.Policy.Digest[:]...)
	if _, stored, gerr := get(a.r, content); gerr != nil {
		return gerr
	} else if !stored {
		err = errors.Join(err, a.batch.Set(content, at, nil))
	}
	if e.Policy.Name.IsZero() {
		return err
	}
	if row, merr := cbor.Marshal(next.PolicyName); merr != nil {
		return merr
	} else {
		err = errors.Join(err, a.batch.Set(nameKey(pName, tenant, e.Policy.Name), row, nil))
	}
	return errors.Join(err, a.batch.Set(num(nameKey(pVersion, tenant, e.Policy.Name), e.Policy.Version), at, nil))
}

// keep stores a record that makes no row, so that every record of the
// log has its copy here.
func (a *applier) keep(r ledger.Record) error {
	return a.place(r.Seq, place{Subject: r.Subject, Payload: r.Payload})
}

func (a *applier) place(seq uint64, p place) error {
	return a.batch.Set(num([]byte{pSeq}, seq), p.encode(), nil)
}

// setAside stops the projection of one chain at a record that can't be applied, and
// stores the reason. The chain is read-only from then on. The subject names the chain,
// so that a second chain of the same id, opened elsewhere, does not stop the first.
func (a *applier) setAside(r ledger.Record, why error) error {
	a.asideChains = append(a.asideChains, AsideChain{r.Subject, r.Seq, why.Error()})
	return errors.Join(a.keepAside(r), a.batch.Set(textKey(pAside, r.Subject), append(num(nil, r.Seq), why.Error()...), nil))
}

// commit writes the rows and the checkpoint, in one batch with everything else.
func (a *applier) commit(cp Checkpoint) error {
	for id, c := range a.changes.chains {
		v, err := cbor.Marshal(&c.session)
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
	a.recent.drop(a.changes)
	if err := a.batch.Commit(pebble.NoSync); err != nil {
		return err
	}
	a.recent.put(a.changes)
	return nil
}
