package steps

import (
	"context"
	"errors"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// compaction records a compaction. dup says that it was done before, or that it is left out.
func (w *Writer) compaction(ctx context.Context, k *transcript.Compaction, rep *tally.Report) (dup bool, err error) {
	r := api.RecordCompaction{ID: k.ID, Parent: w.splits.last(k.Parent), Time: alike.ClaimedTime(k.Time), Trigger: k.Trigger, Model: k.Model, Usage: k.Usage, Replacement: k.Replacement, Summary: k.Summary,
		FirstKept: w.splits.first(k.FirstKept), TokensBefore: k.TokensBefore, Dropped: k.Dropped, Meta: k.Meta}
	for _, x := range k.Cleared {
		at, err := w.turnOfResult(ctx, k.Session, x)
		if err != nil {
			return false, err
		}
		r.Cleared = append(r.Cleared, api.ClearedResult{Turn: at, Call: x.Call})
	}
	to := w.placed.of(k.Parent, k.Session)
	if to != k.Session {
		if had, err := w.hasOwn(ctx, k.Session, k.ID); had || err != nil { // another file of the session begins with it
			return had, err
		}
		w.placed.record(k.ID, k.Session, to)
	}
	if k.Parent.IsZero() {
		to, err = w.olderPlace(ctx, to, k.ID, k.Time, true, false, rep)
	} else {
		to, err = w.sessionFor(ctx, to, k.ID)
	}
	if err != nil {
		return false, err
	}
	if to != k.Session {
		placed := *k
		placed.Session = to
		k = &placed
	}
	t, err := w.Client.Record(ctx, to, r)
	if err == nil && !t.Duplicate {
		w.acked = t.Position
	}
	reason := ""
	switch {
	case err == nil:
		return t.Duplicate, nil
	case k.Parent.IsZero() && api.HasCode(err, api.IDReused) && w.hasCompaction(ctx, k):
		return true, nil
	case k.Parent.IsZero() && w.isFirst(ctx, k, err):
		if k.Usage != nil {
			rep.Lose(transcript.Loss{Kind: "skipped", Reason: "usage of a compaction, which is stored as a turn", Record: k.ID.String(), Usage: k.Usage})
		}
		return w.append(ctx, replacementTurn(k), rep)
	case api.HasCode(err, api.IDReused) && w.isBounded(ctx, k, rep):
		return true, nil
	case errors.Is(err, api.ErrNothing):
		reason = "a recorded compaction that covers nothing"
	case api.HasCode(err, api.Conflict): // an earlier import skipped it, and went on
		reason = "a recorded compaction, after which something else follows in the ledger"
	default:
		return false, err
	}
	w.AddSplit(k.ID, r.Parent, r.Parent) // what follows it follows its parent
	rep.Lose(transcript.Loss{Kind: "skipped", Reason: reason, Record: k.ID.String()})
	return true, nil
}

// isFirst reports whether a compaction, which its transcript begins with, was refused because
// its session holds nothing that it replaced, or because it was stored as a turn for that.
func (w *Writer) isFirst(ctx context.Context, k *transcript.Compaction, refused error) bool {
	if errors.Is(refused, api.ErrNothing) {
		return true
	}
	if !api.HasCode(refused, api.IDReused) {
		return false
	}
	t, err := w.Client.Turn(ctx, k.Session, k.ID)
	return err == nil && t.Type == "normal"
}

// hasCompaction reports whether the ledger has a compaction, which the transcript begins with,
// after the turns that it replaced: another file of the session has them.
func (w *Writer) hasCompaction(ctx context.Context, k *transcript.Compaction) bool {
	t, err := w.Client.Turn(ctx, k.Session, k.ID)
	return err == nil && t.Type == "compaction"
}

// isBounded reports whether the ledger has a compaction with the same summary, and differs in
// nothing but a bound: see [alike.Bounded].
func (w *Writer) isBounded(ctx context.Context, k *transcript.Compaction, rep *tally.Report) bool {
	t, err := w.Client.Turn(ctx, k.Session, k.ID)
	if err != nil || t.Compaction == nil || t.Compaction.Summary != nil && *t.Compaction.Summary != k.Summary || !alike.Bounded(t.Meta, k.Meta, t.Usage, k.Usage) {
		return false
	}
	noteBound(t.Meta, k.Meta, rep)
	return true
}

// replacementTurn returns the turn that stands for a compaction where the ledger has nothing
// of what it replaced: what the agent saw instead.
func replacementTurn(k *transcript.Compaction) *transcript.Append {
	a := &transcript.Append{Session: k.Session, ID: k.ID, Time: k.Time, Messages: k.Replacement, Meta: k.Meta}
	if len(a.Messages) == 0 {
		a.Messages = []turns.Message{turns.TextMessage(turns.User, k.Summary)}
	}
	return a
}
