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

// A source whose turns have the same ids in all files says a turn more than once: as the
// call that made it, and in the history of later calls, where it has no usage and no time.
// What such a copy is silent about contradicts nothing.

// CopyOf returns the turn id of a session if it says the same as a, but for what one of them
// does not state.
func (w *Writer) CopyOf(ctx context.Context, session, id turns.ID, a *transcript.Append) (t *api.Turn, ok bool) {
	t, err := w.Client.Turn(ctx, session, id)
	if err != nil || written.FetchContent(ctx, w.Client, session, t) != nil {
		return nil, false
	}
	return t, alike.IsCopy(t, a)
}

// noteLateUsage puts the usage of a call whose turn was stored without it, from a history,
// into the session's meta, where cost finds it.
func (w *Writer) noteLateUsage(ctx context.Context, t *api.Turn, a *transcript.Append, rep *tally.Report) error {
	if t.Usage != nil || a.Usage == nil {
		return nil
	}
	s, err := w.Client.Session(ctx, t.Session)
	if err != nil {
		return err
	}
	late := turns.LateUsages(s.Meta)
	if _, had := late[t.ID]; had {
		return nil
	}
	if len(late) >= maxLateUsages || s.State != "open" {
		rep.AddUncounted(a.ID, *a.Usage)
		return nil
	}
	if late == nil {
		late = make(map[turns.ID]turns.LateUsage)
	}
	u := turns.LateUsage{Model: a.Model, Usage: *a.Usage}
	if at := alike.StoredTime(a.Time); !at.IsZero() && turns.TimeBoundOf(a.Meta) == "" {
		u.Time = at
	}
	late[t.ID] = u
	b, err := turns.EncodeJSON(late)
	if err != nil {
		return err
	}
	if err := w.setMeta(ctx, s, "late usage", "late_usage", b); err != nil {
		return err
	}
	rep.Stored++
	return nil
}

// maxLateUsages bounds the usages in the meta of one session, which has a greatest size.
const maxLateUsages = 200

// noteBound reports a time that the ledger has as a bound, since a copy brought the turn first.
func noteBound(storedMeta, statedMeta turns.Raw, rep *tally.Report) {
	if turns.TimeBoundOf(storedMeta) != "" && turns.TimeBoundOf(statedMeta) == "" {
		rep.Count(transcript.Loss{Kind: "skipped", Reason: "exact times of turns that a fork's copy brought first: the ledger has bounds of them"})
	}
}
