package steps

import (
	"context"
	"fmt"

	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// rename returns a step with the ids that its session and turns have in the ledger. shared
// says that the turn of the step is one that a successor shares with the session before it.
func (w *Writer) rename(ctx context.Context, st transcript.Step) (out transcript.Step, shared bool, err error) {
	st = w.intoOwn(st)
	switch {
	case st.Open != nil:
		o := *st.Open
		l, err := w.LineOf(ctx, o.ID)
		if err != nil {
			return st, false, err
		}
		o.ID = l.ID
		o.SpawnedBy, err = w.refIn(ctx, o.SpawnedBy)
		return transcript.Step{Open: &o}, false, err
	case st.Fork != nil:
		f, err := w.renameFork(ctx, st.Fork)
		return transcript.Step{Fork: f}, false, err
	case st.Append != nil:
		a := *st.Append
		l, err := w.LineOf(ctx, a.Session)
		if err != nil {
			return st, false, err
		}
		if a.Parent, err = w.TurnIn(ctx, l, a.Parent); err == nil {
			shared, err = w.RenameOwn(ctx, l, &a.ID)
		}
		a.Session = l.ID
		return transcript.Step{Append: &a}, shared, err
	}
	k := *st.Compaction
	l, err := w.LineOf(ctx, k.Session)
	if err != nil {
		return st, false, err
	}
	if k.Parent, err = w.TurnIn(ctx, l, k.Parent); err == nil {
		k.FirstKept, err = w.TurnIn(ctx, l, k.FirstKept)
	}
	k.Cleared = append([]transcript.ClearedResult(nil), k.Cleared...)
	for i := range k.Cleared {
		if err == nil {
			k.Cleared[i].Turn, err = w.TurnIn(ctx, l, k.Cleared[i].Turn)
		}
	}
	if err == nil {
		shared, err = w.RenameOwn(ctx, l, &k.ID)
	}
	k.Session = l.ID
	return transcript.Step{Compaction: &k}, shared, err
}

// RenameOwn replaces the id of a turn of l. shared says that the turn is not l's, but of
// the session that l goes on from.
func (w *Writer) RenameOwn(ctx context.Context, l *Line, id *turns.ID) (shared bool, err error) {
	if !l.Renamed {
		return false, nil
	}
	to, err := w.ownTurn(ctx, l, *id)
	if err != nil {
		return false, err
	}
	if w.renamed == nil {
		w.renamed = make(map[turns.ID]turns.ID)
	}
	w.renamed[*id] = to
	shared = l.Before != nil && to != turns.DeriveID(id.Time(), "refresh", l.ID.String(), id.String())
	*id = to
	return shared, nil
}

// renameFork returns a fork as the ledger has it. One that the ledger has stays where it is,
// though its parent has a successor since.
func (w *Writer) renameFork(ctx context.Context, f *transcript.Fork) (*transcript.Fork, error) {
	l, err := w.LineOf(ctx, f.ID)
	if err != nil {
		return nil, err
	}
	if f.At.Session == f.ID { // see intoOwn
		out := *f
		out.ID, out.At.Session = l.ID, l.ID
		return &out, nil
	}
	if err := w.noteShortCopy(ctx, l, f); err != nil {
		return nil, err
	}
	at, err := w.refIn(ctx, f.At)
	if err != nil {
		return nil, err
	}
	if l.Had != nil && l.Had.ForkedFrom == nil && sessionmeta.IsStandIn(l.Had.Meta) {
		_, err := w.Client.Turn(ctx, l.ID, f.At.Turn)
		if api.HasCode(err, api.NotFound) { // the fork's copy ends before; else the file goes on there
			own := ownOf(l.ID)
			had, err := w.SessionIfAny(ctx, own)
			if err != nil {
				return nil, err
			}
			l = &Line{ID: own, Had: had}
			w.keep(f.ID, l)
		}
	}
	if l.Had != nil && l.Had.ForkedFrom != nil && l.Had.ForkedFrom.Turn == w.splits.last(f.At.Turn) {
		at = turns.Ref{Session: l.Had.ForkedFrom.Session, Turn: f.At.Turn}
	}
	l.Fork, l.At = f.At, at
	out := *f
	out.ID, out.At = l.ID, at
	out.SpawnedBy, err = w.refIn(ctx, f.SpawnedBy)
	return &out, err
}

// refIn returns a turn of another session of the source, as the ledger has it.
func (w *Writer) refIn(ctx context.Context, r turns.Ref) (turns.Ref, error) {
	if r.IsZero() {
		return r, nil
	}
	l, err := w.LineOf(ctx, r.Session)
	if err != nil {
		return r, err
	}
	t, err := w.TurnIn(ctx, l, r.Turn)
	return turns.Ref{Session: l.ID, Turn: t}, err
}

// TurnIn returns the id of a turn of the source's in line l: one of its own, or one that it
// inherits.
func (w *Writer) TurnIn(ctx context.Context, l *Line, turn turns.ID) (turns.ID, error) {
	if turn.IsZero() {
		return turn, nil
	}
	if id, ok := w.renamed[turn]; ok {
		return id, nil
	}
	if turn == l.Fork.Turn {
		return l.At.Turn, nil
	}
	return w.ownTurn(ctx, l, turn)
}

// ownTurn returns the id of a turn of l's own.
func (w *Writer) ownTurn(ctx context.Context, l *Line, turn turns.ID) (turns.ID, error) {
	if !l.Renamed {
		return turn, nil
	}
	if l.Before != nil && l.Had != nil { // it may be one that the fork shares
		id, err := w.ownTurn(ctx, l.Before, turn)
		if err != nil {
			return id, err
		}
		t, err := w.Client.Turn(ctx, l.ID, id)
		if err == nil && t.Session != l.ID {
			return id, nil
		}
		if err != nil && !api.HasCode(err, api.NotFound) {
			return id, err
		}
	}
	return turns.DeriveID(turn.Time(), "refresh", l.ID.String(), turn.String()), nil
}

// noteShortCopy notes a session of which the ledger has only what a fork of it copied, as the
// session's own turns, while the session is itself a fork at a later turn. Its file is read
// again with what it copied, all of which goes to the session: it can't become a fork. The error
// is [ErrNoParent] then.
func (w *Writer) noteShortCopy(ctx context.Context, l *Line, f *transcript.Fork) error {
	if l.Had == nil || l.Had.ForkedFrom != nil || l.Renamed || f.First.IsZero() || sessionmeta.IsStandIn(l.Had.Meta) {
		return nil
	}
	_, err := w.Client.Turn(ctx, l.ID, w.splits.last(f.At.Turn))
	if !api.HasCode(err, api.NotFound) {
		return err
	}
	if w.into == nil {
		w.into = make(map[turns.ID]turns.ID)
	}
	w.into[f.At.Session] = f.ID
	return fmt.Errorf("%w: %w", ErrNoParent, err)
}

// intoOwn returns a step with the sessions that noteShortCopy noted in place of those that they
// copied from.
func (w *Writer) intoOwn(st transcript.Step) transcript.Step {
	to := func(s *turns.ID) {
		if own, ok := w.into[*s]; ok {
			*s = own
		}
	}
	switch {
	case len(w.into) == 0:
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
