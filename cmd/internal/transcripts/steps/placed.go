package steps

import (
	"context"
	"fmt"

	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// place does an append in the session that has its parent. If another turn follows the
// parent there, the turn begins a fork.
func (w *Writer) place(ctx context.Context, a *transcript.Append, rep *tally.Report) (dup bool, err error) {
	if a.Branch.IsZero() {
		return w.appendBeside(ctx, a, rep)
	}
	b := *a
	if b.Session = w.placed.of(a.Parent, a.Session); b.Session != a.Session {
		w.placed.record(a.ID, a.Session, b.Session)
	}
	dup, err = w.append(ctx, &b, rep)
	if !api.HasCode(err, api.Conflict) {
		return dup, err
	}
	parent := w.splits.last(a.Parent)
	s, lookup := w.Client.Session(ctx, b.Session)
	if lookup != nil {
		return false, err
	}
	if !parent.IsZero() {
		if _, lookup := w.Client.Turn(ctx, b.Session, parent); lookup != nil {
			return false, err
		}
		s, lookup = w.Client.Fork(ctx, b.Session, api.CreateFork{ID: a.Branch, Turn: parent, Meta: w.opening(ctx, a.Branch, sessionmeta.OfBranch(s.Meta), rep.Format)})
	} else {
		s, lookup = w.Client.Create(ctx, api.CreateSession{ID: a.Branch, SessionSettings: api.SessionSettings{Meta: w.opening(ctx, a.Branch, sessionmeta.OfBranch(s.Meta), rep.Format)}})
	}
	if lookup != nil && !api.HasCode(lookup, api.IDReused) {
		return false, err
	}
	rep.CountOpened(s, lookup)
	rep.Sessions = append(rep.Sessions, a.Branch)
	if lookup == nil && len(rep.Losses) < maxPlaced {
		rep.Losses = append(rep.Losses, transcript.Loss{Kind: "repaired", Reason: "another turn follows its parent in the ledger; it begins a fork there", Record: a.ID.String()})
	}
	b.Session = a.Branch
	w.placed.record(a.ID, a.Session, a.Branch)
	return w.append(ctx, &b, rep)
}

// appendBeside does an append in the session of an older copy, if that is what the file is.
func (w *Writer) appendBeside(ctx context.Context, a *transcript.Append, rep *tally.Report) (dup bool, err error) {
	b := *a
	if b.Session, err = w.sessionFor(ctx, a.Session, a.ID); err != nil {
		return false, err
	}
	dup, err = w.append(ctx, &b, rep)
	if !api.HasCode(err, api.Conflict) || !a.Parent.IsZero() || a.Continues || b.Session != a.Session || !w.beginsLater(ctx, a) {
		return dup, err
	}
	to, placing := w.olderPlace(ctx, a.Session, a.ID, a.Time, false, true, rep)
	if placing != nil || to == a.Session {
		return dup, err
	}
	b.Session = to
	return w.append(ctx, &b, rep)
}

// maxPlaced bounds the losses of a report that forks are added to.
const maxPlaced = 1000

// fork makes a fork where the ledger has its turn. had says that it was there.
func (w *Writer) fork(ctx context.Context, f *transcript.Fork, rep *tally.Report) (had bool, err error) {
	l, err := w.sessionOf(ctx, f.ID)
	if err != nil {
		return false, err
	}
	if f.At.Session == f.ID { // see intoOwn
		rep.Sessions = append(rep.Sessions, f.ID)
		return true, nil
	}
	at := turns.Ref{Session: w.placed.of(f.At.Turn, f.At.Session), Turn: f.At.Turn}
	if at.Session, err = w.sessionFor(ctx, at.Session, at.Turn); err != nil {
		return false, err
	}
	if l.Had != nil {
		rep.Sessions = append(rep.Sessions, f.ID)
		isPlaced := len(f.Else) > 0 || !f.First.IsZero() || l.Had.ForkedFrom == nil && sessionmeta.IsStandIn(l.Had.Meta)
		if was := l.Had.ForkedFrom; !isPlaced && (was == nil || was.Turn != w.splits.last(at.Turn)) {
			return true, api.Errorf(api.IDReused, nil, "session %s begins elsewhere in the ledger", f.ID)
		}
		return true, w.known(ctx, l, f.SpawnedBy, rep)
	}
	if !f.First.IsZero() {
		if t, lookup := w.Client.Turn(ctx, at.Session, f.First); lookup == nil && t.ID == f.First {
			if w.placed.sessions == nil {
				w.placed.sessions = make(map[turns.ID]turns.ID)
			}
			w.placed.sessions[f.ID] = at.Session
			rep.Sessions = append(rep.Sessions, at.Session)
			return true, nil
		}
	}
	rep.Sessions = append(rep.Sessions, f.ID)
	var s *api.Session
	for _, at := range append([]turns.Ref{at}, f.Else...) {
		s, err = w.Client.Fork(ctx, at.Session, api.CreateFork{ID: f.ID, Turn: w.splits.last(at.Turn), Meta: w.ofRenewal(f.ID, w.opening(ctx, f.ID, f.Meta, rep.Format)), SpawnedBy: spawnedBy(f.SpawnedBy)})
		if !api.HasCode(err, api.NotFound) {
			break
		}
	}
	if api.HasCode(err, api.NotFound) {
		err = fmt.Errorf("%w: %w", ErrNoParent, err)
	}
	rep.CountOpened(s, err)
	if err == nil {
		l.Had = s
	}
	return false, w.ownID(ctx, f.ID, err)
}

// openStandIn opens a session that a fork's copy stands in for, or that one stood in for.
// done is false for any other.
func (w *Writer) openStandIn(ctx context.Context, o *transcript.Open, format string) (done bool, err error) {
	s, err := w.Client.Session(ctx, o.ID)
	switch {
	case err != nil:
		return false, err
	case sessionmeta.IsStandIn(o.Meta):
		return true, nil
	case !sessionmeta.IsStandIn(s.Meta):
		return false, nil
	}
	r := api.SetSession{ID: turns.DeriveID(o.ID.Time(), "import", "own transcript", o.ID.String())}
	again := Writer{Projects: w.Projects} // the import that opened it stays the one
	r.Meta = again.opening(ctx, o.ID, o.Meta, format)
	if v, ok := sessionmeta.Members(s.Meta)["import"]; ok {
		r.Meta = sessionmeta.With(r.Meta, "import", v)
	}
	if _, err = w.Client.Set(ctx, o.ID, r); api.HasCode(err, api.IDReused) {
		err = nil
	}
	return true, err
}
