package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// A label has a chain of its own. Each event on it claims the label for one session;
// the last claim counts. If that session was reset, the label names its successor.
//
// A claim holds while the settings of the session have the label. A session that
// takes another label so frees the first one, and no event says it.
//
// Two events are stored in this order: the claim, then the event that opens or
// changes the session and has the label in its settings. The second confirms the
// claim. A crash between them leaves a claim that is unconfirmed.

// ClaimLease is how long an unconfirmed claim keeps a label from other sessions. It
// is longer than any request lives, so a request under way is not overtaken; and a
// claim that a crash left unconfirmed soon expires.
const ClaimLease = time.Minute

// holder says which session has a label.
type holder struct {
	id      turns.ID        // the session from which others can't take the label; zero if it is free
	session *ledger.Session // the stored session that the label names; nil if there is none
}

// hasUnopenedSuccessor reports whether session was reset to id, and no daemon has
// opened id yet.
func (h holder) hasUnopenedSuccessor() bool {
	return h.session != nil && !h.id.IsZero() && h.session.ID != h.id
}

// findHolder returns the holder of the caller's label whose chain ends in row.
func (ss *Sessions) findHolder(ctx context.Context, c reader.Caller, label string, row ledger.Label) (h holder, err error) {
	visited := make(map[turns.ID]bool) // imported successors may form a loop
	for id := row.Session; !id.IsZero() && !visited[id]; id = h.session.Successor {
		visited[id] = true
		if _, err := ss.reader.CatchUp(ctx, c.Tenant, id); err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return h, err
		}
		s, err := ss.reader.Projections.Session(id)
		if errors.Is(err, ledger.ErrNotFound) {
			return ss.absentHolder(ctx, label, row, h, id)
		}
		if err != nil {
			return h, err
		}
		if s.Tenant != c.Tenant || s.Agent != c.Agent {
			return holder{}, nil
		}
		h.session = &s
		if s.State != turns.Reset || s.Successor.IsZero() {
			break
		}
	}
	if h.session == nil {
		return h, nil
	}
	ev, has, _, err := ss.reader.StoredSettings(h.session)
	switch {
	case errors.Is(err, turns.ErrErased): // unreadable: an open session keeps the label
	case err != nil:
		return h, err
	case has != label && h.session.Final():
		return holder{}, nil
	case has != label:
		id, err := ss.claimant(ctx, row, ev.Recorded)
		return holder{id: id}, err
	}
	if !h.session.Final() {
		h.id = h.session.ID
	}
	return h, nil
}

// absentHolder returns the holder of a label that leads to a session which is not
// stored: the successor of h.session, or the session that claimed the label.
func (ss *Sessions) absentHolder(ctx context.Context, label string, row ledger.Label, h holder, id turns.ID) (holder, error) {
	if h.session == nil {
		id, err := ss.claimant(ctx, row, 0)
		return holder{id: id}, err
	}
	_, has, _, err := ss.reader.StoredSettings(h.session)
	if err != nil || has != label {
		return holder{}, err
	}
	// A successor that another ledger opened has no label here until it is imported.
	if here, err := ss.IsResetHere(h.session); err != nil || !here {
		return holder{}, err
	}
	h.id = id
	return h, nil
}

// claimant returns the session of an unconfirmed claim that is newer than the time
// since, zero if the claim has expired.
func (ss *Sessions) claimant(ctx context.Context, row ledger.Label, since int64) (turns.ID, error) {
	r, err := ss.reader.Log.Get(ctx, row.Tail.Seq)
	if err != nil {
		return turns.ID{}, err
	}
	ev, err := turns.Decode(r.Payload)
	if err != nil || ev.Recorded < since || ss.reader.Now().Sub(time.Unix(0, ev.Recorded)) > ClaimLease {
		return turns.ID{}, err
	}
	return row.Session, nil
}

// Label is the chain of a label. The caller of [Sessions.HoldLabel] is the only one
// on this daemon that may claim it.
type Label struct {
	sessions *Sessions
	caller   reader.Caller
	name     string
	Chain    turns.Chain
	Subject  string
	Row      ledger.Label
	byReset  bool // the label leads to the asking session by its reset
}

// HoldLabel waits for the token of the label's chain, and checks that session may
// have the label. If it may not, the error is [ledger.ErrConflict] and names the
// holder.
func (ss *Sessions) HoldLabel(ctx context.Context, c reader.Caller, name string, session turns.ID) (*Label, func(), error) {
	digest, err := ss.LabelDigest(c.Tenant, c.Agent, name)
	if err != nil {
		return nil, nil, err
	}
	l := &Label{sessions: ss, caller: c, name: name, Chain: turns.Chain{Entity: turns.LabelEntity, ID: digest}}
	l.Subject = ledger.Subject(c.Tenant, digest, l.Chain)
	_, release, err := ss.writer.Hold(ctx, l.Subject)
	if err != nil {
		return nil, nil, err
	}
	if err := l.checkFree(ctx, session); err != nil {
		release()
		return nil, nil, err
	}
	return l, release, nil
}

// checkFree reads the end of the label's chain, and checks that session may have it.
func (l *Label) checkFree(ctx context.Context, session turns.ID) (err error) {
	e := l.sessions
	if l.Row, err = e.labelRow(ctx, l.caller.Tenant, l.Chain.ID); err != nil {
		return err
	}
	h, err := e.findHolder(ctx, l.caller, l.name, l.Row)
	if err != nil {
		return err
	}
	if !h.id.IsZero() && h.id != session {
		why := fmt.Sprintf("session %s has the label", h.id)
		if h.session == nil {
			why = fmt.Sprintf("session %s is being given the label; if that does not end, it is free in %v", h.id, ClaimLease)
		}
		return &api.Error{Code: api.Conflict, Message: why, Details: map[string]any{"session": h.id.String()}}
	}
	l.byReset = h.hasUnopenedSuccessor()
	return nil
}

// Claim appends a claim of the label for session. It returns a conflict if another
// daemon claimed the label after this one found it free.
func (l *Label) Claim(ctx context.Context, session turns.ID) error {
	e := l.sessions
	for {
		id, err := e.writer.NewID(turns.ID{})
		if err != nil {
			return err
		}
		ev := &turns.Event{
			Version: turns.Version, Kind: turns.KindClaimed, ID: id, Chain: l.Chain, Recorded: e.reader.Now().UnixNano(),
			Actor: l.caller.Actor(), Sender: l.caller.Key, Agent: l.caller.Agent, To: turns.Ref{Session: session},
		}
		if !l.Row.Session.IsZero() {
			ev.Index, ev.Prev = l.Row.Tail.Index+1, l.Row.Tail.Hash
		}
		payload, err := e.content.Seal(ctx, l.caller.Tenant, session, ev, &turns.ClaimedBody{Label: l.name}, []turns.ID{session})
		if err != nil {
			return err
		}
		next, err := e.writer.Admit(ctx, e.reader.Projections.History(), l.Subject, l.Row.Tail.Seq, ev, payload)
		if err == nil {
			_, err = e.writer.AppendAdmitted(ctx, next)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, ledger.ErrConflict) {
			return e.writer.InternalError(ev, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: the label kept moving: %w", ledger.ErrUnavailable, ctx.Err())
		}
		if err := l.checkFree(ctx, session); err != nil {
			return err
		}
	}
}

// LabelDigest returns the id of a label's chain, which is keyed and hides the label.
func (ss *Sessions) LabelDigest(tenant, agent, label string) (string, error) {
	k, err := ss.content.LedgerKey()
	if err != nil {
		return "", err
	}
	return seal.LabelDigest(k, tenant, agent, label), nil
}

// labelRow returns the row of a label at the end of its chain.
func (ss *Sessions) labelRow(ctx context.Context, tenant, digest string) (row ledger.Label, err error) {
	chain := turns.Chain{Entity: turns.LabelEntity, ID: digest}
	last, err := ss.reader.Log.Last(ctx, ledger.Subject(tenant, digest, chain))
	if errors.Is(err, ledger.ErrNotFound) {
		return row, nil
	}
	if err != nil {
		return row, err
	}
	if err := ss.reader.Projections.WaitFor(ctx, last.Seq); err != nil {
		return row, err
	}
	row, err = ss.reader.Projections.Label(tenant, digest)
	if err == nil && row.Tail.Seq < last.Seq {
		err = fmt.Errorf("%w: the label's chain goes on to %d, and can't be read behind %d", ledger.ErrCorrupt, last.Seq, row.Tail.Seq)
	}
	return row, err
}

// Resolve is session.resolve: the session that a label names.
func (ss *Sessions) Resolve(ctx context.Context, c reader.Caller, label string) (*api.Session, error) {
	if err := turns.ValidateLabel("/label", label); err != nil {
		return nil, err
	}
	if c.Operator() {
		return nil, &api.Error{Code: api.Unprocessable, Message: "a label belongs to an agent; name the agent"}
	}
	digest, err := ss.LabelDigest(c.Tenant, c.Agent, label)
	if err != nil {
		return nil, err
	}
	row, err := ss.labelRow(ctx, c.Tenant, digest)
	if err != nil {
		return nil, err
	}
	h, err := ss.findHolder(ctx, c, label, row)
	if err != nil {
		return nil, err
	}
	if h.session == nil {
		return nil, &api.Error{Code: api.NotFound, Message: "no session has this label"}
	}
	if h.hasUnopenedSuccessor() {
		return ss.openSuccessor(ctx, h.session)
	}
	if _, due, err := ss.resetDue(ctx, h.session); err != nil {
		return nil, err
	} else if due && ss.reader.AccessNow().Writes == nil {
		if err := ss.ResetIfDue(ctx, h.session); err != nil {
			return nil, err
		}
		next, err := ss.reader.FindSession(ctx, c, h.session.ID, true)
		if err != nil {
			return nil, err
		}
		if next.State == turns.Reset {
			return ss.openSuccessor(ctx, next)
		}
		h.session = next
	}
	return ss.reader.Describe(ctx, h.session)
}

// FinishResetOnConflict returns err. If err is the conflict of a label that belongs
// to a successor which a crash kept from being opened, it opens that successor
// first, so that the caller finds it.
func (ss *Sessions) FinishResetOnConflict(ctx context.Context, c reader.Caller, label string, err error) error {
	if label != "" && errors.Is(err, ledger.ErrConflict) {
		_, _ = ss.Resolve(ctx, c, label) // the answer is the conflict, even if this fails
	}
	return err
}
