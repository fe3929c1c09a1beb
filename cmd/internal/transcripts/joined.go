package transcripts

import (
	"context"
	"fmt"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/formats"
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

// sharesIDs reports whether the turns of a format have the same ids in each file that has
// them, and another event never has those.
func sharesIDs(format string) bool {
	f, _ := formats.Find(format)
	return f.SharesIDs
}

// delay notes a session that may begin with turns of another: it is not opened yet.
func (im *Importer) delay(o *transcript.Open) { im.join(o.ID, &joined{open: o}) }

func (im *Importer) join(session turns.ID, j *joined) {
	if im.joined == nil {
		im.joined = make(map[turns.ID]*joined)
	}
	im.joined[session] = j
}

// isInherited reports whether a step is a turn or compaction of a joined session which another
// session has. For the first other one it makes the session.
func (im *Importer) isInherited(ctx context.Context, st transcript.Step, rep *Report) (bool, error) {
	switch {
	case st.Open != nil:
		return false, im.openJoined(ctx, st.Open.SpawnedBy.Session, rep)
	case st.Fork != nil:
		return false, im.openJoined(ctx, st.Fork.SpawnedBy.Session, rep)
	}
	session, id, parent := turnOf(st)
	if a := st.Append; a != nil && a.Branch.IsZero() {
		return false, im.openJoined(ctx, session, rep)
	}
	j := im.joined[session]
	if j == nil {
		return false, nil
	}
	at, err := im.inherited(ctx, session, j, id, parent)
	if err != nil {
		return false, err
	}
	if at.IsZero() {
		return false, im.openJoined(ctx, session, rep)
	}
	if t, err := im.Client.Turn(ctx, at.Session, id); err != nil {
		return false, err
	} else if a := st.Append; a != nil {
		if err := im.fetchContent(ctx, at.Session, t); err != nil {
			return false, err
		}
		if !alike.IsCopy(t, a) {
			return false, im.openJoined(ctx, session, rep)
		}
		if err := im.noteLateUsage(ctx, t, a, rep); err != nil {
			return false, err
		}
	}
	j.at = at
	im.placed.record(id, session, at.Session)
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
func (im *Importer) inherited(ctx context.Context, session turns.ID, j *joined, id, parent turns.ID) (turns.Ref, error) {
	if parent != j.at.Turn {
		return turns.Ref{}, nil
	}
	if j.open == nil { // the session is a fork: it inherits what it does not have itself
		t, err := im.Client.Turn(ctx, session, id)
		if coded(err, api.NotFound) || err == nil && t.Session == session {
			return turns.Ref{}, nil
		}
		if err != nil {
			return turns.Ref{}, err
		}
		return turns.Ref{Session: t.Session, Turn: id}, nil
	}
	names, err := im.Client.FindNames(ctx, api.FindNames{Name: id.String(), Kind: "turn", Read: api.Read{MinPosition: im.acked}})
	if err != nil {
		return turns.Ref{}, err
	}
	for _, n := range names.Turns {
		s, err := im.sessionIfAny(ctx, n.Session)
		if err != nil {
			return turns.Ref{}, err
		}
		if n.ID != id || n.Session == session || s == nil || s.State != "open" {
			continue
		}
		t, err := im.Client.Turn(ctx, n.Session, id)
		if err != nil {
			return turns.Ref{}, err
		}
		if parent.IsZero() {
			if t.Parent == nil {
				return turns.Ref{Session: n.Session, Turn: id}, nil
			}
		} else if _, err := im.Client.Turn(ctx, n.Session, parent); err == nil {
			return turns.Ref{Session: n.Session, Turn: id}, nil
		} else if !coded(err, api.NotFound) {
			return turns.Ref{}, err
		}
	}
	return turns.Ref{}, nil
}

// openJoined makes a session that was delayed. What follows is its own.
func (im *Importer) openJoined(ctx context.Context, session turns.ID, rep *Report) error {
	j := im.joined[session]
	if j == nil {
		return nil
	}
	delete(im.joined, session)
	if !j.at.IsZero() { // what follows it is of this session
		delete(im.placed.turns, j.at.Turn)
	}
	if j.open == nil {
		return nil
	}
	l, err := im.sessionOf(ctx, session)
	if err != nil {
		return err
	}
	rep.Sessions = append(rep.Sessions, session)
	rep.Stored++
	rep.Existing -= min(rep.Existing, 1) // it was counted when it was delayed
	if j.at.IsZero() {
		l.had, err = im.create(ctx, j.open, rep)
		return err
	}
	r := api.CreateFork{ID: session, Turn: im.splits.last(j.at.Turn), Meta: im.opening(ctx, session, j.open.Meta, rep.Format), SpawnedBy: spawnedBy(j.open.SpawnedBy)}
	l.had, err = im.Client.Fork(ctx, j.at.Session, r)
	l.had, err = im.unlessOpened(ctx, session, r.Meta, l.had, err)
	rep.countOpened(l.had, err)
	return im.ownID(ctx, session, err)
}

// resumeJoined finds the turns of other sessions that a session begins with, for a step that an
// earlier intake did. isDelayed says that the step opens a session which is not there yet.
func (im *Importer) resumeJoined(ctx context.Context, st transcript.Step, rep *Report) (isDelayed bool, err error) {
	switch {
	case !sharesIDs(rep.Format) || st.Fork != nil:
		return false, nil
	case st.Open != nil:
		l, err := im.sessionOf(ctx, st.Open.ID)
		switch {
		case err != nil || l.renamed:
		case l.had == nil:
			im.delay(st.Open)
			return true, nil
		case l.had.ForkedFrom != nil && l.before == nil:
			im.join(st.Open.ID, new(joined))
		}
		return false, err
	}
	session, id, parent := turnOf(st)
	j := im.joined[session]
	if j == nil {
		return false, nil
	}
	at, err := im.inherited(ctx, session, j, id, parent)
	if err != nil {
		return false, err
	}
	if at.IsZero() {
		delete(im.placed.turns, j.at.Turn)
		delete(im.joined, session)
		return false, nil
	}
	j.at = at
	im.placed.record(id, session, at.Session)
	return false, nil
}

// endJoined makes the sessions that have no turns of their own. With copied they may be of other
// files, which may have more: those make them.
func (im *Importer) endJoined(ctx context.Context, copied bool, rep *Report) error {
	if copied {
		return nil
	}
	for session := range im.joined {
		if err := im.openJoined(ctx, session, rep); err != nil {
			return err
		}
	}
	return nil
}

// noteShortCopy notes a session of which the ledger has only what a fork of it copied, as the
// session's own turns, while the session is itself a fork at a later turn. Its file is read
// again with what it copied, all of which goes to the session: it can't become a fork. The error
// is [ErrNoParent] then.
func (im *Importer) noteShortCopy(ctx context.Context, l *line, f *transcript.Fork) error {
	if l.had == nil || l.had.ForkedFrom != nil || l.renamed || f.First.IsZero() || isStandIn(l.had.Meta) {
		return nil
	}
	_, err := im.Client.Turn(ctx, l.id, im.splits.last(f.At.Turn))
	if !coded(err, api.NotFound) {
		return err
	}
	if im.into == nil {
		im.into = make(map[turns.ID]turns.ID)
	}
	im.into[f.At.Session] = f.ID
	return fmt.Errorf("%w: %w", ErrNoParent, err)
}

// intoOwn returns a step with the sessions that noteShortCopy noted in place of those that they
// copied from.
func (im *Importer) intoOwn(st transcript.Step) transcript.Step {
	to := func(s *turns.ID) {
		if own, ok := im.into[*s]; ok {
			*s = own
		}
	}
	switch {
	case len(im.into) == 0:
	case st.Open != nil:
		o := *st.Open
		to(&o.ID)
		st.Open = &o
	case st.Fork != nil:
		f := *st.Fork
		to(&f.At.Session)
		st.Fork = &f
	case st.Append != nil:
		a := *st.Append
		to(&a.Session)
		st.Append = &a
	default:
		k := *st.Compaction
		to(&k.Session)
		st.Compaction = &k
	}
	return st
}
