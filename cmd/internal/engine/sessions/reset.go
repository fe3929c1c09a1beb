package sessions

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// Reset is session.reset. The session takes no more turns, and a successor with its
// label and settings and none of its turns replaces it.
//
// The commit point is a state event on the old session that names the successor.
// Crash states: after it, the successor does not exist yet. A retry, a look-up of
// the label, or a change that is refused because of the reset opens it, on any
// daemon.
func (ss *Sessions) Reset(ctx context.Context, c reader.Caller, id turns.ID, req api.ResetSession, canonical []byte) (*api.Session, error) {
	if err := page.CheckText("/cause", req.Cause, ss.page.TextBytes()); err != nil {
		return nil, err
	}
	r := writer.Request{ID: req.ID, Verb: "session.reset", Canonical: canonical}
	var committed bool
	err := ss.writer.Mutate(request.Ending(ctx), c, id, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := ss.writer.BeginEvent(s, r, turns.KindState)
		if done || err != nil {
			return nil, err
		}
		ev.State = turns.Reset
		if ev.Successor, err = ss.NewSuccessorID(s.ID); err != nil {
			return nil, err
		}
		return &writer.Draft{Event: ev, Body: &turns.StateBody{Cause: req.Cause}, After: func(uint64, turns.Hash) { committed = true }}, nil
	})
	if err != nil {
		return nil, err
	}
	old, err := ss.reader.FindSession(ctx, c, id, true)
	if err != nil {
		return nil, writer.AfterCommit(err)
	}
	next, err := ss.openSuccessor(ctx, old)
	if err == nil && committed {
		ss.writer.Announce(c, id, "session.reset", turns.ID{}, next.Position, map[string]any{"successor": next.ID.String()})
	}
	return next, writer.AfterCommit(err)
}

// openSuccessor returns the successor of a session that was reset. It opens the
// successor if no daemon has. The request is the same on every daemon, so one event
// opens it. If another ledger made the reset, that ledger opens the successor, and
// an import brings it.
func (ss *Sessions) openSuccessor(ctx context.Context, old *ledger.Session) (*api.Session, error) {
	here, err := ss.IsResetHere(old)
	if err != nil {
		return nil, err
	}
	c, err := ss.resetter(old)
	if err != nil {
		return nil, err
	}
	if !here {
		next, err := ss.reader.FindSession(ctx, c, old.Successor, true)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, writer.CheckOpen(old)
		}
		if err != nil {
			return nil, err
		}
		return ss.reader.Describe(ctx, next)
	}
	ctx, release, err := ss.writer.HoldCopy(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	label, set, err := ss.reader.SettingsInForce(ctx, old)
	if err != nil {
		return nil, fmt.Errorf("settings for the successor of session %s: %w", old.ID, err)
	}
	set.PreambleBlob = nil // it names a blob of the old session's tree
	set.SpawnedBy = turns.Ref{}
	id := old.Successor
	open := func(label string) (*api.Session, error) {
		ev := &turns.Event{
			ID: id, Kind: turns.KindOpened, Root: id, Agent: old.Agent, Role: old.Kind,
			Origin: &turns.Origin{Ledger: ss.content.Ledger, Tenant: old.Tenant, Session: id},
		}
		return ss.OpenSession(ctx, c, writer.Request{ID: id, Verb: "session.succeed", Canonical: []byte(old.ID.String())}, ev, label, set)
	}
	s, err := open(label)
	if conflict := new(api.Error); errors.As(err, &conflict) && conflict.Code == api.Conflict {
		return open("") // another session took the label in between
	}
	return s, err
}

// resetter returns the caller of the successor's opening: the session's own agent, with
// the key of the user who asked for the reset, whoever's request opens the successor.
func (ss *Sessions) resetter(old *ledger.Session) (reader.Caller, error) {
	payload, err := ss.reader.Projections.EventAt(old.ID, old.Ended)
	if err != nil {
		return reader.Caller{}, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return reader.Caller{}, err
	}
	return reader.Caller{Tenant: old.Tenant, Agent: old.Agent, Key: ev.Sender}, nil
}

// FinishReset opens the successor of a session that was reset, if no daemon has.
func (ss *Sessions) FinishReset(ctx context.Context, s *ledger.Session) error {
	if s.State != turns.Reset || s.Successor.IsZero() {
		return nil
	}
	if _, err := ss.reader.Projections.Session(s.Successor); !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	if here, err := ss.IsResetHere(s); err != nil || !here {
		return err
	}
	_, err := ss.openSuccessor(ctx, s)
	return err
}

// A reset does not name the ledger that made it, and an imported session may be reset
// here. So the id of the successor tells: the random part of it is a mark of the ledger.

// NewSuccessorID returns an id for the successor of a session.
func (ss *Sessions) NewSuccessorID(session turns.ID) (turns.ID, error) {
	mark, err := ss.successorMark(session)
	if err != nil {
		return turns.ID{}, err
	}
	return turns.NewID(ss.reader.Now(), bytes.NewReader(mark))
}

// IsResetHere reports whether this ledger made the reset of a session.
//
// Invariant: no two ledgers open a successor under one id.
func (ss *Sessions) IsResetHere(s *ledger.Session) (bool, error) {
	mark, err := ss.successorMark(s.ID)
	if err != nil {
		return false, err
	}
	return bytes.Equal(s.Successor[len(s.Successor)-len(mark):], mark), nil
}

// successorMark returns the last 10 bytes of the id that this ledger gives to the
// successor of a session. They are keyed by the session's content key, so nobody
// else can take the id first.
func (ss *Sessions) successorMark(session turns.ID) ([]byte, error) {
	k, err := ss.content.Key(session)
	if err != nil {
		return nil, err
	}
	h := seal.SuccessorMark(k, ss.content.Ledger, session)
	return h[:10], nil
}
