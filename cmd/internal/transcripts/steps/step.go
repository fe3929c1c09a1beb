package steps

import (
	"context"

	"nexus/cmd/internal/transcripts/tally"
	"nexus/turns/transcript"
)

// step does one step. dup says that it was done before.
func (w *Writer) step(ctx context.Context, st transcript.Step, rep *tally.Report) (dup bool, err error) {
	switch {
	case st.Open != nil:
		return w.open(ctx, st.Open, rep)
	case st.Fork != nil:
		countStep(st, rep)
		return w.fork(ctx, st.Fork, rep)
	case st.Append != nil:
		countStep(st, rep)
		dup, err := w.place(ctx, st.Append, rep)
		if p, split := w.splits[st.Append.ID]; split && p.first != p.last {
			rep.CountSplit()
		}
		return dup, err
	default:
		countStep(st, rep)
		return w.compaction(ctx, st.Compaction, rep)
	}
}

// countStep counts what a step is, but for the opening of a session.
func countStep(st transcript.Step, rep *tally.Report) {
	switch {
	case st.Fork != nil:
		rep.CountFork(st.Fork.ID)
	case st.Append != nil:
		rep.CountTurn(st.Append.ID)
	case st.Compaction != nil:
		rep.CountCompaction(st.Compaction.ID)
	}
}

// open opens a session. had says that the ledger has it, or that it is not opened yet: see
// joined.go.
func (w *Writer) open(ctx context.Context, o *transcript.Open, rep *tally.Report) (had bool, err error) {
	if had, ok, err := w.openRenewed(ctx, o, rep.Format); ok {
		rep.Sessions = append(rep.Sessions, o.ID)
		return had, w.ownID(ctx, o.ID, err)
	}
	l, err := w.sessionOf(ctx, o.ID)
	if err != nil {
		return false, err
	}
	if l.Had == nil && !l.Renamed && SharesIDs(rep.Format) {
		w.delay(o)
		return true, nil
	}
	rep.Sessions = append(rep.Sessions, o.ID)
	if l.Had != nil {
		if l.Had.ForkedFrom != nil && l.Before == nil && SharesIDs(rep.Format) {
			w.join(o.ID, new(joined))
		}
		if done, err := w.openStandIn(ctx, o, rep.Format); done || err != nil {
			return true, err
		}
		return true, w.known(ctx, l, o.SpawnedBy, rep)
	}
	l.Had, err = w.create(ctx, o, rep)
	return false, err
}
