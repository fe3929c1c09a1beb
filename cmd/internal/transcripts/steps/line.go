package steps

import (
	"context"

	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/ledger/api"
	"nexus/turns"
)

// A session that an import stored may have a successor, which holds what a later reading
// of the transcript found: see refresh.go. The steps of a transcript name the session by
// the id that its reader derives. This file maps that to the session of the ledger that
// takes them.

// Line is a session of a source, as the ledger has it.
type Line struct {
	ID      turns.ID     // in the ledger
	Renamed bool         // a successor: its turns have ids of their own
	Before  *Line        // what it goes on from, sharing the turns up to a fork; nil: nothing
	Had     *api.Session // nil: the ledger lacks it
	Fork    turns.Ref    // where the source has it forked; zero: nowhere
	At      turns.Ref    // the same, in the ledger
}

// maxSuccessors bounds how many times a session was read anew.
const maxSuccessors = 1000

// LineOf returns the session of the ledger that takes the steps of a session of the source.
func (w *Writer) LineOf(ctx context.Context, source turns.ID) (*Line, error) {
	if l := w.lines[source]; l != nil {
		return l, nil
	}
	l, err := w.lookUp(ctx, source)
	if err != nil {
		return nil, err
	}
	if r := w.renewing[source]; r != nil {
		had, err := w.SessionIfAny(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		next := &Line{ID: r.ID, Renamed: true, Had: had}
		if !r.Point.IsZero() {
			next.Before = l
		}
		l = next
	}
	w.keep(source, l)
	return l, nil
}

func (w *Writer) keep(source turns.ID, l *Line) {
	if w.lines == nil {
		w.lines, w.byID = make(map[turns.ID]*Line), make(map[turns.ID]*Line)
	}
	w.lines[source], w.byID[l.ID] = l, l
}

// lookUp follows the successors of a session.
func (w *Writer) lookUp(ctx context.Context, source turns.ID) (*Line, error) {
	had, err := w.SessionIfAny(ctx, source)
	l := &Line{ID: source, Had: had}
	for n := 0; err == nil && had != nil && n < maxSuccessors; n++ {
		next := sessionmeta.Successor(had.Meta)
		if next.IsZero() {
			break
		}
		if had, err = w.SessionIfAny(ctx, next); err != nil || had == nil {
			break // of another agent, or not there: the meta is the client's
		}
		to := &Line{ID: next, Renamed: true, Had: had}
		if f := had.ForkedFrom; f != nil && f.Session == l.ID {
			to.Before = l
		}
		l = to
	}
	if err == nil && l.Had != nil && l.Had.ForkedFrom == nil && sessionmeta.IsStandIn(l.Had.Meta) {
		own, err := w.SessionIfAny(ctx, ownOf(l.ID))
		if own != nil || err != nil {
			return &Line{ID: ownOf(l.ID), Had: own}, err
		}
	}
	return l, err
}

// SessionIfAny returns a session of the agent, nil if there is none.
func (w *Writer) SessionIfAny(ctx context.Context, id turns.ID) (*api.Session, error) {
	s, err := w.Client.Session(ctx, id)
	if api.HasCode(err, api.NotFound) {
		return nil, nil
	}
	return s, err
}

// sessionOf returns what the ledger has of a session with an id of the ledger.
func (w *Writer) sessionOf(ctx context.Context, id turns.ID) (*Line, error) {
	if l := w.byID[id]; l != nil {
		return l, nil
	}
	return w.LineOf(ctx, id)
}

// ownOf returns the id of the session that a transcript gets which is itself a fork, where a
// fork of it was read first: a session of its own stands in for it, and no session becomes a
// fork later.
func ownOf(standIn turns.ID) turns.ID {
	return turns.DeriveID(standIn.Time(), "import", "own fork", standIn.String())
}

// Plan is what a refresh does with the sessions of a file: see refresh.go. Package changes makes it.
type Plan struct {
	Successors map[turns.ID]*Renewal // by the source's session: those that get one
	Same       []*api.Session        // that read the same, by the present reader or not
	Less       []turns.ID            // that have what the file lacks, and get no successor
}

// Renewal is a successor in the making.
type Renewal struct {
	ID    turns.ID
	Old   *api.Session
	Point turns.Ref      // the last turn that both have, where the file has lost others; zero: none
	Lost  bool           // the file has lost turns that the old session holds
	Also  []*api.Session // branches of the old session that the successor holds
}

// ofRenewal returns the meta of a successor, which names the session before it; meta itself
// for any other session.
func (w *Writer) ofRenewal(id turns.ID, meta turns.Raw) turns.Raw {
	for _, r := range w.renewing {
		if r.ID == id {
			name := map[bool]string{true: "continues", false: "supersedes"}[r.Lost]
			return sessionmeta.With(meta, name, turns.RawText(r.Old.ID.String()))
		}
	}
	return meta
}
