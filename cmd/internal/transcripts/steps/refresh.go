package steps

import (
	"context"
	"errors"

	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// An import with Refresh compares what the present reader reads in a file with what the
// ledger holds of it. A session that reads differently gets a successor, which holds what is
// read now: a session of its own, whose ids are derived from those of the session and the
// version of the reader, so that the same refresh again changes nothing. The old session is
// closed, and its meta names the successor. Lists and costs leave it out.
//
// Nothing is hidden that the file does not hold. Where the reader is the one that read the
// session before, another response is of another file: one that was written anew, or that
// names the same session. A file that has nothing which the ledger lacks is an older copy:
// nothing is made of it. And no content of a file is made a successor twice.
//
// Where the file has lost turns that the old session holds, the successor is a fork at the last turn that both have, or a session of its own if
// there is none, and the old session stays in lists and costs: nothing else has those turns.
//
// Crash states: after the successor is opened, before the old session is marked: the next
// refresh makes the same successor, and marks it.

// Renew marks what a plan names, after the steps of the file were done: the sessions that have a
// successor now, and those that read the same.
func (w *Writer) Renew(ctx context.Context, plan *Plan, rep *tally.Report) error {
	for _, s := range plan.Same {
		if !sessionmeta.IsOlder(s, rep.Format) {
			continue
		}
		now, err := w.Client.Session(ctx, s.ID)
		if err != nil {
			return err
		}
		if err := w.setMeta(ctx, now, "read again", "reader", sessionmeta.ReaderMark(rep.Format)); err != nil {
			return err
		}
		rep.Same++
	}
	for _, id := range plan.Less {
		rep.Lose(transcript.Loss{Kind: "kept_first", Reason: "the file has less of this session than the ledger, or what another file replaced; nothing was made of it", Record: id.String()})
	}
	for source, r := range plan.Successors {
		for _, old := range append([]*api.Session{r.Old}, r.Also...) {
			if err := w.supersede(ctx, r, old, w.lines[source]); err != nil {
				return err
			}
		}
		rep.Renewed++
	}
	return nil
}

// supersede marks the session that a successor took the place of, and closes it.
func (w *Writer) supersede(ctx context.Context, r *Renewal, old *api.Session, next *Line) error {
	if next == nil || next.ID != r.ID {
		return errors.New("internal error: a session was read anew, and nothing was stored")
	}
	s, err := w.Client.Session(ctx, old.ID)
	if err != nil {
		return err
	}
	name := "superseded_by"
	if r.Lost && old == r.Old {
		name = "continued_by"
	}
	if err := w.setMeta(ctx, s, "successor", name, turns.RawText(r.ID.String())); err != nil {
		return err
	}
	if s.State != "open" {
		return nil
	}
	id := turns.DeriveID(s.ID.Time(), "import", "superseded", s.ID.String(), r.ID.String())
	if _, err := w.Client.Close(ctx, s.ID, api.CloseSession{ID: id, Cause: "session " + r.ID.String() + " holds what its transcript reads as now"}); err != nil {
		return err
	}
	if s.Label == "" {
		return nil
	}
	set := api.SetSession{ID: turns.DeriveID(s.ID.Time(), "import", "label", s.ID.String(), r.ID.String())}
	set.Label = &s.Label
	_, err = w.Client.Set(ctx, r.ID, set)
	if api.HasCode(err, api.IDReused) {
		return nil
	}
	return err
}

// openRenewed makes the session of a step the fork that goes on from the old one, where the
// file has lost turns; ok is false for another step.
func (w *Writer) openRenewed(ctx context.Context, o *transcript.Open, format string) (had, ok bool, err error) {
	for _, r := range w.renewing {
		if r.ID != o.ID || r.Point.IsZero() {
			continue
		}
		l := w.byID[r.ID]
		if l != nil && l.Had != nil {
			return true, true, nil
		}
		meta := sessionmeta.With(w.opening(ctx, r.ID, o.Meta, format), "continues", turns.RawText(r.Old.ID.String()))
		s, err := w.Client.Fork(ctx, r.Point.Session, api.CreateFork{ID: r.ID, Turn: r.Point.Turn, Meta: meta})
		if err == nil && l != nil {
			l.Had = s
		}
		return false, true, err
	}
	return false, false, nil
}
