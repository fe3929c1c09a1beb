package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/page"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// FindSession reads a session from the projections. If fresh is set, it first waits
// until they have applied all that was acknowledged of the session's chain when the
// request came. Only then is a negative answer true, or one about the head. A chain that
// was set aside before its end is [ledger.ErrCorrupt] then.
func (rd *Reader) FindSession(ctx context.Context, c Caller, id turns.ID, fresh bool) (*ledger.Session, error) {
	var end ledger.Record
	if fresh {
		var err error
		if end, err = rd.acknowledged(ctx, c.Tenant, id); err != nil {
			if errors.Is(err, ledger.ErrNotFound) {
				return nil, SessionNotFound(id)
			}
			return nil, err
		}
	}
	s, err := rd.Projections.Session(id)
	if errors.Is(err, ledger.ErrNotFound) {
		if !fresh {
			return rd.FindSession(ctx, c, id, true)
		}
		return nil, cmp.Or(rd.AsideError(c.Tenant, id), SessionNotFound(id)) // its opening may be lost
	}
	if err != nil {
		return nil, err
	}
	if err := CheckVisible(c, &s); err != nil {
		return nil, err
	}
	if s.Tail.Seq < end.Seq && s.Subject() == end.Subject {
		return nil, rd.BehindError(&s, end.Seq)
	}
	return &s, nil
}

// BehindError returns the error for a session whose chain ends at last, where the
// projections have passed last but hold an older event of the chain.
func (rd *Reader) BehindError(s *ledger.Session, last uint64) error {
	if err := rd.AsideError(s.Tenant, s.ID); err != nil {
		return err
	}
	return fmt.Errorf("%w: session %s: projections end at %d, the chain at %d", ledger.ErrCorrupt, s.ID, s.Tail.Seq, last)
}

// acknowledged returns the position up to which the session's chain was acknowledged, and
// its subject, and waits until the projections have applied it: without the log where
// [Reader].Acknowledged knows it, else as [Reader.ChainEnd] does.
func (rd *Reader) acknowledged(ctx context.Context, tenant string, id turns.ID) (ledger.Record, error) {
	if rd.Acknowledged == nil || rd.AccessNow().Stale() {
		return rd.ChainEnd(ctx, tenant, id)
	}
	s, err := rd.Projections.Session(id)
	if err != nil || s.Tenant != tenant { // the subject is not known
		return rd.ChainEnd(ctx, tenant, id)
	}
	seq, ok := rd.Acknowledged(s.Subject())
	// A chain that was set aside ends earlier in the projections than on the log. It is asked
	// last: a record that Acknowledged does not have, because it is applied, may be the one.
	if !ok || rd.Projections.SetAside() > 0 {
		return rd.ChainEnd(ctx, tenant, id)
	}
	return ledger.Record{Seq: seq, Subject: s.Subject()}, rd.Projections.WaitFor(ctx, seq)
}

// WaitAcknowledged waits until the projections have applied all that was acknowledged before
// the call. It reports false if that is not known without the log: then it waits for nothing.
func (rd *Reader) WaitAcknowledged(ctx context.Context) (known bool, err error) {
	if rd.AllAcknowledged == nil || rd.AccessNow().Stale() {
		return false, nil
	}
	seq, ok := rd.AllAcknowledged()
	if !ok {
		return false, nil
	}
	return true, rd.Projections.WaitFor(ctx, seq)
}

// CatchUp waits until the projections have applied the end of the session's chain,
// and returns the position of that end.
func (rd *Reader) CatchUp(ctx context.Context, tenant string, id turns.ID) (uint64, error) {
	last, err := rd.ChainEnd(ctx, tenant, id)
	return last.Seq, err
}

// ChainEnd returns the last record of the session's chain, and waits until the
// projections have applied it. If the tenant has no such session, it may be a
// duplicate opening; see [ledger.ErrDuplicateOpening]. [ledger.ErrNotFound]: neither the
// log nor the projections have the session.
func (rd *Reader) ChainEnd(ctx context.Context, tenant string, id turns.ID) (ledger.Record, error) {
	subject, known := ledger.AnyShard(tenant, turns.SessionChain(id)), false
	if s, err := rd.Projections.Session(id); err == nil && s.Tenant == tenant {
		subject, known = s.Subject(), true
	}
	for {
		last, err := rd.Log.Last(ctx, subject)
		if known && errors.Is(err, ledger.ErrNotFound) { // a server whose disk fails says so, too
			err = fmt.Errorf("%w: the log gives no record of session %s, which it had", ledger.ErrUnavailable, id)
		}
		if err == nil {
			err = rd.Projections.WaitFor(ctx, last.Seq)
		}
		if err != nil || last.Subject == subject {
			return last, err
		}
		// Only now the projections know which of the id's chains is the session's.
		s, err := rd.Projections.Session(id)
		if err != nil || s.Tenant != tenant || s.Subject() == last.Subject {
			return last, nil // the caller reads the session itself
		}
		subject, known = s.Subject(), true
	}
}

// HasID reports whether the session of an id is that on subject: whether its opening
// is the first of the id on the log. The projections must have applied that opening.
// A duplicate opening has no session; see [ledger.ErrDuplicateOpening].
func (rd *Reader) HasID(id turns.ID, subject string) (bool, error) {
	s, err := rd.Projections.Session(id)
	if errors.Is(err, ledger.ErrNotFound) {
		why, err := rd.Projections.WhyAside(subject)
		return false, errors.Join(err, fmt.Errorf("%w: session %s is read-only here: %s", ledger.ErrCorrupt, id, why))
	}
	return err == nil && s.Subject() == subject, err
}

// WaitPosition waits until the projections have applied the position that a read
// asks for.
func (rd *Reader) WaitPosition(ctx context.Context, r api.Read) error {
	if r.MinPosition == "" {
		return nil
	}
	seq, err := page.ParsePosition(string(r.MinPosition))
	if err != nil {
		return err
	}
	if rd.Projections.Applied().Seq >= seq {
		return nil
	}
	// No event has this position yet, so a wait might never end.
	st, err := rd.Log.State(ctx)
	if err != nil {
		return err
	}
	if seq > st.Last {
		return api.FieldErrorf("/min_position", "a position that this ledger has not reached")
	}
	return rd.Projections.WaitFor(ctx, seq)
}

// WaitLog waits until the projections have applied the position that a read asks for and,
// unless it takes a stale answer, all that the log had when the request came. Answers about
// several chains need it: a session's own chain is waited for where the session is found.
// While the disk takes no writes it waits for nothing: then replies may be stale.
func (rd *Reader) WaitLog(ctx context.Context, r api.Read) error {
	if err := rd.WaitPosition(ctx, r); err != nil || r.StaleOK {
		return err
	}
	st, err := rd.Log.State(ctx)
	if err == nil {
		err = rd.Projections.WaitFor(ctx, st.Last)
	}
	if rd.AccessNow().Stale() && ctx.Err() == nil {
		return nil
	}
	return err
}

// LocateTurn finds a turn of a session by its id. It answers not found only after
// the projections have applied the session's tail, unless r accepts a stale answer.
func (rd *Reader) LocateTurn(ctx context.Context, c Caller, session, id turns.ID, r api.Read) (lineage.Node, error) {
	for fresh := false; ; fresh = true {
		s, err := rd.FindSession(ctx, c, session, fresh)
		if err != nil {
			return lineage.Node{}, err
		}
		n, err := rd.FindTurn(s, id)
		if err == nil || fresh || r.StaleOK || !errors.Is(err, ledger.ErrNotFound) {
			return n, err
		}
	}
}

// SessionAt returns a session and the node from which a read starts: the turn at, or
// the session's head if at is zero.
func (rd *Reader) SessionAt(ctx context.Context, c Caller, session, at turns.ID, r api.Read) (*ledger.Session, lineage.Node, error) {
	if err := rd.WaitPosition(ctx, r); err != nil {
		return nil, lineage.Node{}, err
	}
	var s *ledger.Session
	var err error
	if at.IsZero() || r.StaleOK {
		s, err = rd.FindSession(ctx, c, session, !r.StaleOK)
	} else {
		s, err = rd.FindSessionBeforeLoss(ctx, c, session)
	}
	if err != nil {
		return nil, lineage.Node{}, err
	}
	if !at.IsZero() {
		n, err := rd.FindTurn(s, at)
		if errors.Is(err, ledger.ErrNotFound) && !r.StaleOK { // it may be lost
			err = cmp.Or(rd.AsideError(s.Tenant, s.ID), err)
		}
		return s, n, err
	}
	head, err := rd.HeadNode(s)
	return s, head, err
}

// HeadNode returns the node of the session's head, the zero Node if it has no turn.
func (rd *Reader) HeadNode(s *ledger.Session) (lineage.Node, error) {
	if s.Head.IsZero() {
		return lineage.Node{}, nil
	}
	return rd.Projections.Node(s.Head)
}

// FindTurn finds a turn by its id: a turn of the session's own on any branch, or an
// inherited turn on the path of the fork point.
func (rd *Reader) FindTurn(s *ledger.Session, id turns.ID) (lineage.Node, error) {
	at := turns.Ref{Session: s.ID, Turn: id}
	for sess := s; ; {
		t, err := rd.Projections.Turn(turns.Ref{Session: sess.ID, Turn: id})
		if err == nil {
			if sess == s {
				return t.Node, nil
			}
			point, err := rd.Projections.Node(at)
			if err != nil {
				return lineage.Node{}, err
			}
			ok, err := lineage.IsAncestor(rd.Projections, t.Node, point)
			if err != nil || ok {
				return t.Node, err
			}
		} else if !errors.Is(err, lineage.ErrUnknown) {
			return lineage.Node{}, err
		}
		if sess.ForkOf == nil {
			return lineage.Node{}, &api.Error{Code: api.NotFound, Message: fmt.Sprintf("no turn %s on session %s or what it inherits", id, s.ID)}
		}
		if sess == s {
			at = s.ForkOf.At
		}
		up, err := rd.Projections.Session(sess.ForkOf.At.Session)
		if err != nil {
			return lineage.Node{}, err
		}
		sess = &up
	}
}
