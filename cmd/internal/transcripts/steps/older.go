package steps

import (
	"context"
	"time"

	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// An agent writes a file anew, and an old copy of it (a backup) is imported after the newer
// one. What the copy begins with the session lacks, and it is older than what the session
// has: it is stored beside, and the session stays as it is. A compaction that has turns of
// the session before it makes a fork there. Else the copy is a session of its own, whose
// meta names the one that goes on from it (continued_by). All of that is derived from the
// session and the first record, so that the same copy again stores nothing.

// maxOlder bounds how many older copies of one file are sessions of their own.
const maxOlder = 64

// olderID returns the session that holds an older copy of a session's file.
func olderID(session turns.ID) turns.ID {
	return turns.DeriveID(session.Time(), "older copy", session.String())
}

// olderBranch returns the fork of a session that holds an older copy, which begins with a
// compaction.
func olderBranch(session, compaction turns.ID) turns.ID {
	return turns.DeriveID(session.Time(), "older copy from", session.String(), compaction.String())
}

// sessionFor returns the session that takes a turn or compaction of a session, which may be that
// of an older copy. What the session itself has stays there.
func (w *Writer) sessionFor(ctx context.Context, session, turn turns.ID) (turns.ID, error) {
	to, ok := w.older[session]
	if !ok || turn.IsZero() {
		return session, nil
	}
	had, err := w.hasOwn(ctx, session, turn)
	if had || err != nil {
		return session, err
	}
	return to, nil
}

// hasOwn reports whether a session has a turn.
func (w *Writer) hasOwn(ctx context.Context, session, turn turns.ID) (bool, error) {
	_, err := w.Client.Turn(ctx, session, turn)
	if api.HasCode(err, api.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// olderPlace returns the session that takes the first turn or compaction of a transcript,
// where session has others. isNewer says that what session has is known to be newer; if not,
// and no older copy has the turn, it is session itself.
func (w *Writer) olderPlace(ctx context.Context, session, id turns.ID, at time.Time, compaction, isNewer bool, rep *tally.Report) (turns.ID, error) {
	to := session
	for range maxOlder {
		switch had, err := w.hasOwn(ctx, to, id); {
		case err != nil:
			return session, err
		case had:
			return w.noteOlder(session, to, rep), nil
		}
		branch := olderBranch(to, id)
		if s, err := w.SessionIfAny(ctx, branch); err != nil || s != nil {
			return w.noteOlder(session, branch, rep), err
		}
		s, err := w.SessionIfAny(ctx, to)
		if err != nil {
			return session, err
		}
		if s == nil {
			meta, err := w.Client.Session(ctx, session)
			if err != nil {
				return session, err
			}
			m := sessionmeta.With(w.opening(ctx, to, sessionmeta.OfBranch(meta.Meta), rep.Format), "continued_by", turns.RawText(session.String()))
			if _, err := w.Client.Create(ctx, api.CreateSession{ID: to, SessionSettings: api.SessionSettings{Meta: m}}); err != nil {
				return session, err
			}
			return w.newOlder(session, to, rep), nil
		}
		point, newer, err := w.before(ctx, to, at)
		if err != nil {
			return session, err
		}
		switch {
		case to == session && !newer && !isNewer:
			return session, nil
		case compaction && !newer: // it follows all that an older copy had
			return w.noteOlder(session, to, rep), nil
		case compaction && !point.IsZero():
			m := w.opening(ctx, branch, sessionmeta.OfBranch(s.Meta), rep.Format)
			if _, err := w.Client.Fork(ctx, point.Session, api.CreateFork{ID: branch, Turn: point.Turn, Meta: m}); err != nil {
				return session, err
			}
			return w.newOlder(session, branch, rep), nil
		}
		to = olderID(to)
	}
	return session, nil
}

// resumeOlder finds the session of an older copy that an earlier import made for a step.
func (w *Writer) resumeOlder(ctx context.Context, st transcript.Step, rep *tally.Report) error {
	var session, id turns.ID
	switch {
	case st.Append != nil && st.Append.Parent.IsZero():
		session, id = st.Append.Session, st.Append.ID
	case st.Compaction != nil && st.Compaction.Parent.IsZero():
		session, id = st.Compaction.Session, st.Compaction.ID
	default:
		return nil
	}
	to := session
	for range maxOlder {
		if had, err := w.hasOwn(ctx, to, id); had || err != nil {
			w.noteOlder(session, to, rep)
			return err
		}
		branch := olderBranch(to, id)
		if s, err := w.SessionIfAny(ctx, branch); s != nil || err != nil {
			w.noteOlder(session, branch, rep)
			return err
		}
		to = olderID(to)
		if s, err := w.SessionIfAny(ctx, to); s == nil || err != nil {
			return err
		}
	}
	return nil
}

// before returns the last turn on the path of a session's head that is not after a time, and
// whether what the head has is newer than that.
func (w *Writer) before(ctx context.Context, session turns.ID, at time.Time) (point turns.Ref, newer bool, err error) {
	if !turns.IsTimeKnown(at) {
		return point, false, nil
	}
	for t, err := range w.Client.Turns(ctx, session, api.ListTurns{}) {
		if api.HasCode(err, api.NotFound) {
			return turns.Ref{}, false, nil
		}
		if err != nil {
			return point, false, err
		}
		if t.Time == nil {
			continue
		}
		// A bound from above says nothing of what is before it.
		later := time.Time(*t.Time).After(at)
		if newer = newer || later && turns.TimeBoundOf(t.Meta) != turns.TimeNotAfter; !newer && !later {
			point = turns.Ref{Session: t.Session, Turn: t.ID}
		}
	}
	return point, newer, nil
}

// beginsLater reports whether a session begins with a turn that is newer than a, which is not
// the session's.
func (w *Writer) beginsLater(ctx context.Context, a *transcript.Append) bool {
	if !turns.IsTimeKnown(a.Time) || turns.TimeBoundOf(a.Meta) == turns.TimeNotAfter {
		return false
	}
	for t, err := range w.Client.Turns(ctx, a.Session, api.ListTurns{Page: api.Page{Limit: 1}}) {
		return err == nil && t.ID != a.ID && t.Time != nil && time.Time(*t.Time).After(a.Time)
	}
	return false
}

// noteOlder makes a session take what follows in the file.
func (w *Writer) noteOlder(session, to turns.ID, rep *tally.Report) turns.ID {
	if to == session {
		return to
	}
	if w.older == nil {
		w.older = make(map[turns.ID]turns.ID)
	}
	w.older[session] = to
	rep.Sessions = append(rep.Sessions, to)
	return to
}

func (w *Writer) newOlder(session, to turns.ID, rep *tally.Report) turns.ID {
	rep.Lose(transcript.Loss{Kind: "stored", Reason: "the file is an older copy: what the session lacked of it is in one beside it, and the session stays as it was", Record: to.String()})
	return w.noteOlder(session, to, rep)
}
