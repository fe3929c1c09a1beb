package apply

import (
	"errors"

	"nexus/ledger"
	"nexus/ledger/tlog"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
)

// Apply folds in one record. A record that breaks a rule sets its chain aside, before
// anything of the record is in a row, and stops no other chain. A returned error is
// the store's own.
func (a *Batch) Apply(p Parsed) error {
	r, e, tenant := p.Record, p.Event, p.Tenant
	if err := a.leaf(p); err != nil {
		return err
	}
	if p.NoSubject != nil {
		return a.setAside(r, p.NoSubject)
	}
	if a.aside || len(a.asideChains) > 0 {
		if why, err := a.WhyAside(r.Subject); err != nil {
			return err
		} else if why != "" {
			return a.keepAside(r)
		}
	}
	if p.Bad != nil {
		return a.setAside(r, p.Bad)
	}
	switch e.Chain.Entity {
	case turns.SessionEntity, turns.LabelEntity, turns.TenantEntity, turns.AgentEntity, turns.ChannelEntity:
	default:
		return a.keep(r)
	}
	if c := a.admitted(p); c != nil {
		return a.session(r, e, c, p.known.node)
	}
	next, err := ledger.Admit(a, r.Subject, r.Seq, r.Hash, e)
	if a.Decided != nil {
		*a.Decided = Decision{next, err}
	}
	switch {
	case errors.Is(err, ledger.ErrDuplicateOpening):
		return a.keep(r) // it opens nothing, and harms no chain
	case err != nil && ledger.IsRefusal(err):
		return a.setAside(r, err)
	case err != nil:
		return err
	case e.Chain.Entity == turns.SessionEntity:
		return a.session(r, e, &chain{session: next.Session}, next.Node)
	}
	return a.other(tenant, r, e, next)
}

// admitted returns the state of a session's chain with a turn, if the writer of the turn has asked [ledger.Admit] of it
// on the chain as it is here; nil if not. The answer follows from the chain and from turns that never change, and the
// hash of the chain's tail says which chain that was.
func (a *Batch) admitted(p Parsed) *chain {
	x := p.known
	if x == nil || x.subject != p.Subject {
		return nil
	}
	before := a.chain(x.chain.session.ID)
	if before == nil || before.session.Tail.Hash != p.Event.Prev || before.session.Tail.Seq >= p.Seq {
		return nil
	}
	x.chain.session.Tail.Seq = p.Seq // which the writer could not know
	return x.chain
}

// other folds in a record of a chain that is no session's. It is apart because what it
// encodes is allocated, which a turn need not pay for.
func (a *Batch) other(tenant string, r ledger.Record, e *turns.Event, next ledger.Admitted) error {
	switch e.Chain.Entity {
	case turns.LabelEntity:
		return a.label(tenant, r, e, &next.Label)
	case turns.TenantEntity:
		return a.policy(tenant, r, e, &next)
	case turns.ChannelEntity:
		return a.received(tenant, r, e, &next.Channel)
	}
	return a.memories(tenant, r, e, &next)
}

// session folds in a record of a session. c has the fold with the event, and becomes the
// chain's state; node is the place of a turn.
func (a *Batch) session(r ledger.Record, e *turns.Event, c *chain, node lineage.Node) (err error) {
	id := c.session.ID
	if e.Index > 0 {
		if c.newest, err = a.newestID(id); err != nil {
			return err
		}
	}
	if e.ID.Compare(c.newest) > 0 {
		c.newest = e.ID
	}
	if err = a.updated(&c.session, e.Index == 0); err != nil {
		return err
	}
	a.changes.chains[id] = c
	switch {
	case e.Kind == turns.KindOpened:
		err = errors.Join(a.opened(&c.session), a.name(&c.session, id), a.batch.Set(rows.Number(rows.Settings.Key(id), e.Index), nil))
	case e.Kind == turns.KindChanged:
		err = a.batch.Set(rows.Number(rows.Settings.Key(id), e.Index), nil)
		if c.session.Spawned.IsZero() { // the settings may name a spawner, but they are sealed
			err = errors.Join(err, a.batch.Set(rows.SubAgentKey(&c.session), nil))
		}
	case e.Kind == turns.KindMoved:
		err = a.batch.Set(rows.Number(rows.Moves.Key(id, e.To.Session, e.To.Turn), e.Index), nil)
	case e.Kind == turns.KindNoted:
		err = a.batch.Set(rows.Number(rows.Notes.Key(id, e.To.Session, e.To.Turn), e.Index), nil)
	case e.Kind == turns.KindRedacted:
		err = a.batch.Set(rows.Number(rows.Redacted.Key(id, e.To.Turn), e.Index), nil)
	case e.Kind.IsTurn():
		err = errors.Join(a.turn(node, r, e), a.name(&c.session, e.ID), a.external(c.session.Tenant, e), a.learned(&c.session, e, r.Seq))
		return errors.Join(err,
			a.batch.Set(a.numKey(e.Index, rows.Events, id), rows.Pointer(e.Segment, e.Depth)),
			a.place(r.Seq, rows.Place{Session: id, Index: e.Index}),
		)
	}
	if c.session.State == turns.Erased {
		err = errors.Join(err, a.batch.Set(rows.ErasedSessions.Key(id), nil))
	}
	switch e.Kind {
	case turns.KindOpened, turns.KindChanged, turns.KindState:
		if c.session.Timed && !c.session.Final() {
			err = errors.Join(err, a.batch.Set(rows.TimedSessions.Key(id), nil))
		} else {
			err = errors.Join(err, a.batch.Delete(rows.TimedSessions.Key(id)))
		}
	}
	return errors.Join(err,
		a.batch.Set(a.numKey(e.Index, rows.Events, id), rows.Inline(r.Payload)),
		a.setRow(rows.EventIDs.Key(id, e.ID), rows.Number(nil, e.Index)),
		a.place(r.Seq, rows.Place{Session: id, Index: e.Index}),
	)
}

// name writes the rows by which an id of a session is found: that of a turn, or its own.
func (a *Batch) name(s *ledger.Session, id turns.ID) error {
	a.keys = rows.AppendByID(a.keys[:0], s.Tenant, s.Agent, id, s.ID)
	if err := a.batch.Set(a.keys, nil); err != nil {
		return err
	}
	a.keys = rows.AppendByEnd(a.keys[:0], s.Tenant, s.Agent, id, s.ID)
	return a.batch.Set(a.keys, nil)
}

func (a *Batch) opened(s *ledger.Session) error {
	err := a.batch.Set(append(rows.AgentSessions.TextKey(s.Tenant, s.Agent), s.ID[:]...), nil)
	if f := s.ForkOf; f != nil {
		err = errors.Join(err, a.batch.Set(rows.Forks.Key(f.At.Session, f.At.Turn, s.ID), nil))
	}
	if !s.Spawned.IsZero() {
		err = errors.Join(err, a.batch.Set(rows.SubAgentKey(s), nil))
	}
	return err
}

// updated moves a session to its place in the order of changes, if that is in another second
// than that of its last event.
func (a *Batch) updated(s *ledger.Session, opened bool) error {
	if !opened {
		before, err := a.Session(s.ID)
		if err != nil || rows.Second(before.Updated) == rows.Second(s.Updated) {
			return err
		}
		for _, agent := range []string{"", s.Agent} {
			if err := a.batch.Delete(updatedKey(&before, agent)); err != nil {
				return err
			}
		}
	}
	for _, agent := range []string{"", s.Agent} {
		if err := a.batch.Set(updatedKey(s, agent), nil); err != nil {
			return err
		}
	}
	return nil
}

// updatedKey is where a session is in the order of changes of an agent, "" of all.
func updatedKey(s *ledger.Session, agent string) []byte {
	return append(rows.ByTimeKey(s.Tenant, agent, s.Updated), s.ID[:]...)
}

// leaf adds a record to the tree.
func (a *Batch) leaf(p Parsed) error {
	if a.tree == nil {
		return nil
	}
	leaf := tlog.LeafHash(p.Hash)
	if p.Event == nil { // nobody compared the hash, or it is no event
		leaf = tlog.Leaf(p.Seq, p.Payload)
	}
	return a.tree.AppendLeaf(leaf, func(level int, n uint64, h turns.Hash) error {
		a.keys = rows.TreeKey(a.keys[:0], level, n)
		return a.batch.Set(a.keys, h[:])
	})
}

func (a *Batch) turn(node lineage.Node, r ledger.Record, e *turns.Event) error {
	t := &rows.Turn{Node: node, Index: e.Index, Seq: r.Seq, Hash: r.Hash, Open: e.Open, Recorded: e.Recorded}
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
		a.batch.Set(a.key(rows.Turns, ref.Session, ref.Turn), t.Encode()),
		a.batch.Set(a.numKey(e.Depth, rows.Payloads, ref.Session, e.Segment), r.Payload),
	)
	if !e.Parent.IsZero() {
		err = errors.Join(err, a.batch.Set(a.key(rows.Children, e.Parent.Session, e.Parent.Turn, ref.Session, ref.Turn), nil))
	}
	if e.Kind == turns.KindCompaction {
		err = errors.Join(err, a.batch.Set(rows.Number(rows.Compactions.Key(ref.Session), e.Index), ref.Turn[:]))
		if th := e.Span.Through; !th.IsZero() {
			err = errors.Join(err, a.batch.Set(rows.Coverings.Key(th.Session, th.Turn, ref.Session, ref.Turn), nil))
		}
	}
	return err
}

func (a *Batch) label(tenant string, r ledger.Record, e *turns.Event, l *ledger.Label) error {
	v, err := rows.Encode(l)
	if err != nil {
		return err
	}
	return errors.Join(a.setRow(rows.Labels.TextKey(tenant, e.Chain.ID), v), a.keep(r))
}

func (a *Batch) policy(tenant string, r ledger.Record, e *turns.Event, next *ledger.Admitted) error {
	row, err := rows.Encode(next.Policies)
	if err != nil {
		return err
	}
	at := rows.Number(nil, r.Seq)
	err = errors.Join(a.setRow(rows.Policies.TextKey(tenant), row), a.batch.Set(append(rows.PolicyEvents.TextKey(tenant), e.ID[:]...), at), a.keep(r))
	by := rows.PoliciesBy.TextKey(tenant, e.Actor)
	n, _, err2 := a.Number(by)
	if err2 != nil {
		return err2
	}
	err = errors.Join(err, a.setRow(by, rows.Number(nil, n+1)))
	content := append(rows.PolicyContents.TextKey(tenant), e.Policy.Digest[:]...)
	if _, stored, gerr := a.row(content); gerr != nil {
		return gerr
	} else if !stored {
		err = errors.Join(err, a.setRow(content, at))
	}
	if e.Policy.Name.IsZero() {
		return err
	}
	if row, merr := rows.Encode(next.PolicyName); merr != nil {
		return merr
	} else {
		err = errors.Join(err, a.setRow(rows.PolicyNames.NameKey(tenant, e.Policy.Name), row))
	}
	return errors.Join(err, a.batch.Set(rows.Number(rows.PolicyVersions.NameKey(tenant, e.Policy.Name), e.Policy.Version), at))
}
