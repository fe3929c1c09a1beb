package steps

import (
	"context"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/transcripts/written"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Files of Claude Code copy turns of each other, with the ids that they have there: the file of a
// fork, the one that a resume of an old version left, and the parent's own file where a fork's
// was imported first. Whichever file comes first brings the turns. A session that begins with
// turns of another one is a fork of that at the last turn that both have, with the same id as if
// it had come first. So each turn is stored once, and the order of the files decides only
// which session is the fork of which.
//
// Such a session is made when its first turn comes that no other has, or at the end of its
// file. Crash states: before that nothing is stored.

// joined is a session of which the ledger has the first turns in others.
type joined struct {
	open *transcript.Open // nil: the session is there
	at   turns.Ref        // the last of those turns; zero: none yet
}

// delay notes a session that may begin with turns of another: it is not opened yet.
func (w *Writer) delay(o *transcript.Open) { w.join(o.ID, &joined{open: o}) }

func (w *Writer) join(session turns.ID, j *joined) {
	if w.joined == nil {
		w.joined = make(map[turns.ID]*joined)
	}
	w.joined[session] = j
}

// isInherited reports whether a step is a turn or compaction of a joined session which another
// session has. For the first other one it makes the session.
func (w *Writer) isInherited(ctx context.Context, st transcript.Step, rep *tally.Report) (bool, error) {
	switch {
	case st.Open != nil:
		return false, w.openJoined(ctx, st.Open.SpawnedBy.Session, rep)
	case st.Fork != nil:
		return false, w.openJoined(ctx, st.Fork.SpawnedBy.Session, rep)
	}
	session, id, parent := turnOf(st)
	if a := st.Append; a != nil && a.Branch.IsZero() {
		return false, w.openJoined(ctx, session, rep)
	}
	j := w.joined[session]
	if j == nil {
		return false, nil
	}
	at, err := w.inherited(ctx, session, j, id, parent)
	if err != nil {
		return false, err
	}
	if at.IsZero() {
		return false, w.openJoined(ctx, session, rep)
	}
	if t, err := w.Client.Turn(ctx, at.Session, id); err != nil {
		return false, err
	} else if a := st.Append; a != nil {
		if err := written.FetchContent(ctx, w.Client, at.Session, t); err != nil {
			return false, err
		}
		if !alike.IsCopy(t, a) {
			return false, w.openJoined(ctx, session, rep)
		}
		if err := w.noteLateUsage(ctx, t, a, rep); err != nil {
			return false, err
		}
	}
	j.at = at
	w.placed.record(id, session, at.Session)
	return true, nil
}

// turnOf returns the session, the id and the parent of a step that is a turn or compaction.
func turnOf(st transcript.Step) (session, id, parent turns.ID) {
	if a := st.Append; a != nil {
		return a.Session, a.ID, a.Parent
	}
	return st.Compaction.Session, st.Compaction.ID, st.Compaction.Parent
}

// inherited returns where the ledger has a turn of a joined session, after the turns of it
// that others have; zero: nowhere.
func (w *Writer) inherited(ctx context.Context, session turns.ID, j *joined, id, parent turns.ID) (turns.Ref, error) {
	if parent != j.at.Turn {
		return turns.Ref{}, nil
	}
	if j.open == nil { // the session is a fork: it inherits what it does not have itself
		t, err := w.Client.Turn(ctx, session, id)
		if api.HasCode(err, api.NotFound) || err == nil && t.Session == session {
			return turns.Ref{}, nil
		}
		if err != nil {
			return turns.Ref{}, err
		}
		return turns.Ref{Session: t.Session, Turn: id}, nil
	}
	names, err := w.Client.FindNames(ctx, api.FindNames{Name: id.String(), Kind: "turn", Read: api.Read{MinPosition: api.Position(w.acked)}})
	if err != nil {
		return turns.Ref{}, err
	}
	for _, n := range names.Turns {
		s, err := w.SessionIfAny(ctx, n.Session)
		if err != nil {
			return turns.Ref{}, err
		}
		if n.ID != id || n.Session == session || s == nil || s.State != "open" {
			continue
		}
		t, err := w.Client.Turn(ctx, n.Session, id)
		if err != nil {
			return turns.Ref{}, err
		}
		if parent.IsZero() {
			if t.Parent == nil {
				return turns.Ref{Session: n.Session, Turn: id}, nil
			}
		} else if _, err := w.Client.Turn(ctx, n.Session, parent); err == nil {
			return turns.Ref{Session: n.Session, Turn: id}, nil
		} else if !api.HasCode(err, api.NotFound) {
			return turns.Ref{}, err
		}
	}
	return turns.Ref{}, nil
}

// openJoined makes a session that was delayed. What follows is its own.
func (w *Writer) openJoined(ctx context.Context, session turns.ID, rep *tally.Report) error {
	j := w.joined[session]
	if j == nil {
		return nil
	}
	delete(w.joined, session)
	if !j.at.IsZero() { // what follows it is of this session
		delete(w.placed.turns, j.at.Turn)
	}
	if j.open == nil {
		return nil
	}
	l, err := w.sessionOf(ctx, session)
	if err != nil {
		return err
	}
	rep.Sessions = append(rep.Sessions, session)
	rep.Stored++
	rep.Existing -= min(rep.Existing, 1) // it was counted when it was delayed
	if j.at.IsZero() {
		l.Had, err = w.create(ctx, j.open, rep)
		return err
	}
	r := api.CreateFork{ID: session, Turn: w.splits.last(j.at.Turn), Meta: w.opening(ctx, session, j.open.Meta, rep.Format), SpawnedBy: spawnedBy(j.open.SpawnedBy)}
	l.Had, err = w.Client.Fork(ctx, j.at.Session, r)
	l.Had, err = w.unlessOpened(ctx, session, r.Meta, l.Had, err)
	rep.CountOpened(l.Had, err)
	return w.ownID(ctx, session, err)
}

// resumeJoined finds the turns of other sessions that a session begins with, for a step that an
// earlier intake did. isDelayed says that the step opens a session which is not there yet.
func (w *Writer) resumeJoined(ctx context.Context, st transcript.Step, rep *tally.Report) (isDelayed bool, err error) {
	switch {
	case !SharesIDs(rep.Format) || st.Fork != nil:
		return false, nil
	case st.Open != nil:
		l, err := w.sessionOf(ctx, st.Open.ID)
		switch {
		case err != nil || l.Renamed:
		case l.Had == nil:
			w.delay(st.Open)
			return true, nil
		case l.Had.ForkedFrom != nil && l.Before == nil:
			w.join(st.Open.ID, new(joined))
		}
		return false, err
	}
	session, id, parent := turnOf(st)
	j := w.joined[session]
	if j == nil {
		return false, nil
	}
	at, err := w.inherited(ctx, session, j, id, parent)
	if err != nil {
		return false, err
	}
	if at.IsZero() {
		delete(w.placed.turns, j.at.Turn)
		delete(w.joined, session)
		return false, nil
	}
	j.at = at
	w.placed.record(id, session, at.Session)
	return false, nil
}

// endJoined makes the sessions that have no turns of their own. With copied they may be of other
// files, which may have more: those make them.
func (w *Writer) endJoined(ctx context.Context, copied bool, rep *tally.Report) error {
	if copied {
		return nil
	}
	for session := range w.joined {
		if err := w.openJoined(ctx, session, rep); err != nil {
			return err
		}
	}
	return nil
}
