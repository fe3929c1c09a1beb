package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Reset is session.reset: the session takes no more turns, and a successor with
// its label and settings, and none of its turns, goes on.
//
// It commits in one place, a state event on the old session that names the
// successor. Crash states: after it, the successor does not exist yet; a retry,
// a look-up of the label, or a change that is refused because of the reset
// opens it, on any daemon.
func (e *Engine) Reset(ctx context.Context, c Caller, id turns.ID, req api.ResetSession, canonical []byte) (*api.Session, error) {
	r := request{id: req.ID, what: "session.reset", canonical: canonical}
	var committed bool
	err := e.mutate(ctx, c, id, func(_ *chain, s *ledger.Session) (*draft, error) {
		ev, done, err := e.begin(s, r, turns.KindState)
		if done || err != nil {
			return nil, err
		}
		ev.State = turns.Reset
		if ev.Successor, err = e.newSuccessor(s.ID); err != nil {
			return nil, err
		}
		return &draft{event: ev, body: &turns.StateBody{Cause: req.Cause}, after: func(uint64, turns.Hash) { committed = true }}, nil
	})
	if err != nil {
		return nil, err
	}
	old, err := e.row(ctx, c, id, true)
	if err != nil {
		return nil, written(err)
	}
	next, err := e.succeed(ctx, old)
	if err == nil && committed {
		e.notify(c, id, "session.reset", turns.ID{}, next.Position, map[string]any{"successor": next.ID.String()})
	}
	return next, written(err)
}

// succeed is the successor of a session that was reset; it opens it where no
// daemon has yet. Its request is the same whoever makes it, so it is opened once.
// That of a reset which another ledger made is opened there, and comes from there.
func (e *Engine) succeed(ctx context.Context, old *ledger.Session) (*api.Session, error) {
	c := Caller{Tenant: old.Tenant, Agent: old.Agent}
	here, err := e.resetHere(old)
	if err != nil {
		return nil, err
	}
	if !here {
		next, err := e.row(ctx, c, old.Successor, true)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, takes(old)
		}
		if err != nil {
			return nil, err
		}
		return e.session(ctx, next)
	}
	label, set, err := e.inForce(ctx, old)
	if err != nil {
		return nil, fmt.Errorf("settings for the successor of session %s: %w", old.ID, err)
	}
	set.Apart = nil // a blob of the old session's tree
	id := old.Successor
	open := func(label string) (*api.Session, error) {
		ev := &turns.Event{
			ID: id, Kind: turns.KindOpened, Root: id, Agent: old.Agent, Role: old.Kind,
			Origin: &turns.Origin{Ledger: e.Ledger, Tenant: old.Tenant, Session: id},
		}
		return e.openSession(ctx, c, request{id: id, what: "session.succeed", canonical: []byte(old.ID.String())}, ev, label, set)
	}
	s, err := open(label)
	if taken := new(api.Error); errors.As(err, &taken) && taken.Code == api.Conflict {
		return open("") // the label was given to another session in between
	}
	return s, err
}

// succeeded opens the successor of a session that was reset, if no daemon has.
func (e *Engine) succeeded(ctx context.Context, s *ledger.Session) error {
	if s.State != turns.Reset || s.Successor.IsZero() {
		return nil
	}
	if _, err := e.Store.Session(s.Successor); !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	if here, err := e.resetHere(s); err != nil || !here {
		return err
	}
	_, err := e.succeed(ctx, s)
	return err
}

// An event says nothing of the ledger that it was made in, and a session may be
// reset in the one that it came to by an import. So the id of a successor tells:
// the part of it that is random elsewhere is the ledger's mark.

// newSuccessor is an id for the successor of a session.
func (e *Engine) newSuccessor(session turns.ID) (turns.ID, error) {
	mark, err := e.successorMark(session)
	if err != nil {
		return turns.ID{}, err
	}
	return turns.NewID(e.Now(), bytes.NewReader(mark))
}

// resetHere reports whether the reset of a session was made in this ledger, and
// not imported. Invariant: no two ledgers open a successor under one id.
func (e *Engine) resetHere(s *ledger.Session) (bool, error) {
	mark, err := e.successorMark(s.ID)
	return bytes.Equal(s.Successor[len(s.Successor)-len(mark):], mark), err
}

// successorMark is the last 10 bytes of the id that this ledger gives to the
// successor of a session: keyed by the session's content key, so that nobody
// else can take the id before it is used.
func (e *Engine) successorMark(session turns.ID) ([]byte, error) {
	h, err := e.digest(session, request{what: "session.successor", canonical: slices.Concat(e.Ledger[:], session[:])})
	return h[:10], err
}
