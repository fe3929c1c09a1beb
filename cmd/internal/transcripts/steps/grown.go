package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// turnOfResult returns the turn of the ledger that holds a tool result of the source.
func (w *Writer) turnOfResult(ctx context.Context, session turns.ID, x transcript.ClearedResult) (turns.ID, error) {
	p, split := w.splits[x.Turn]
	for at := p.last; split && at != p.first; {
		t, err := w.Client.Turn(ctx, session, at)
		if err != nil {
			return turns.ID{}, err
		}
		for _, m := range t.Messages {
			if slices.ContainsFunc(m.Parts, func(q turns.Part) bool { return q.Type == turns.ToolCallResponse && q.ID == x.Call }) {
				return at, nil
			}
		}
		if t.Parent == nil {
			break
		}
		at = *t.Parent
	}
	return w.splits.first(x.Turn), nil
}

// MaxPieces is how many turns of the ledger are searched for a turn of the source.
const MaxPieces = 64

// append does an append. dup says that it was done before. If the ledger holds the
// beginning of the turn, append adds the rest to that. It adds to the losses of rep the
// usage that no turn of the ledger can take.
func (w *Writer) append(ctx context.Context, a *transcript.Append, rep *tally.Report) (dup bool, err error) {
	parent := w.splits.last(a.Parent)
	head, err := w.otherHead(ctx, a)
	if head.IsZero() && err == nil {
		var ack *api.Appended
		ack, err = w.Client.Append(ctx, a.Session, api.AppendTurn{ID: a.ID, Parent: parent, Messages: a.Messages, Response: a.Response,
			Model: a.Model, Usage: a.Usage, Time: alike.ClaimedTime(a.Time), Meta: a.Meta})
		if err == nil {
			if !ack.Duplicate {
				w.acked = ack.Position
			}
			return ack.Duplicate, nil
		}
	}
	if api.HasCode(err, api.Closed) { // blob.put is refused, whether the turn is stored or not
		if _, stored := w.Client.Turn(ctx, a.Session, a.ID); stored == nil {
			return true, nil
		}
	}
	if api.HasCode(err, api.IDReused) && !a.Branch.IsZero() {
		if t, ok := w.CopyOf(ctx, a.Session, a.ID, a); ok {
			return true, w.noteLateUsage(ctx, t, a, rep)
		}
	}
	tip, next := head, a.ID
	var e *api.Error
	switch {
	case api.HasCode(err, api.IDReused):
		tip, next = a.ID, turns.DeriveID(a.ID.Time(), "rest", a.ID.String())
	case api.HasCode(err, api.Conflict) && errors.As(err, &e):
		s, _ := e.Details["head"].(string)
		if tip, _ = turns.ParseID(s); tip.IsZero() {
			return false, err
		}
	case err != nil:
		return false, err
	}
	stored, tip, ok := w.storedPieces(ctx, a.Session, tip, parent)
	rest, more, same := alike.Rest(stored, a)
	if ok && same && !more {
		rep.AddUncounted(a.ID, alike.LostUsage(stored, a, rest))
	}
	switch {
	case !ok || !same:
		if err == nil {
			err = api.Errorf(api.Conflict, nil, "the session %s begins otherwise in the ledger", a.Session)
		}
		return false, changedFileError(err, a)
	case rest == nil && len(stored) == 1 && err != nil && !more:
		if api.HasCode(err, api.IDReused) && alike.Bounded(stored[0].Meta, a.Meta, stored[0].Usage, a.Usage) {
			noteBound(stored[0].Meta, a.Meta, rep)
			return true, nil
		}
		return false, err // another time, usage or meta: the first stays
	case rest == nil:
		w.AddSplit(a.ID, stored[0].ID, tip)
		return true, nil
	}
	rest.ID, rest.Parent = next, tip
	if dup, err = w.append(ctx, rest, rep); err == nil || api.HasCode(err, api.IDReused) {
		w.AddSplit(a.ID, stored[0].ID, w.splits.last(next))
	}
	return dup, err
}

// otherHead returns the head of a session that has turns, but not the first turn a; zero
// for any other session or turn. The append of a first turn names no parent, so the
// ledger would put it after that head.
func (w *Writer) otherHead(ctx context.Context, a *transcript.Append) (head turns.ID, err error) {
	if !a.Parent.IsZero() || a.Continues {
		return turns.ID{}, nil
	}
	s, err := w.Client.Session(ctx, a.Session)
	if err != nil || s.Head == nil {
		return turns.ID{}, err
	}
	if _, err = w.Client.Turn(ctx, a.Session, a.ID); api.HasCode(err, api.NotFound) {
		return *s.Head, nil
	}
	return turns.ID{}, err
}

// storedPieces returns the turns of a session after parent, up to tip, that can hold one
// turn of the source: a turn with messages after a response is the next one. last is the
// last of them, or of the compactions between. ok is false if there are none, or more
// than MaxPieces.
func (w *Writer) storedPieces(ctx context.Context, session, tip, parent turns.ID) (out []*api.Turn, last turns.ID, ok bool) {
	list := api.ListTurns{At: tip, Page: api.Page{Limit: MaxPieces}}
	if !parent.IsZero() {
		list.After = parent.String()
	}
	answered, n := false, 0
	for x, err := range w.Client.Turns(ctx, session, list) {
		if n++; err != nil || n > MaxPieces {
			return nil, last, false
		}
		if x.Type != "normal" { // a compaction holds no messages
			last = x.ID
			continue
		}
		t, err := w.Client.Turn(ctx, session, x.ID)
		if err != nil {
			return nil, last, false
		}
		if answered && len(t.Messages) > 0 {
			break
		}
		out, last, answered = append(out, t), x.ID, answered || t.Response != nil
	}
	return out, last, len(out) > 0
}

// changedFileError adds to a conflict what to do about it: another turn stands in the
// place of a.
func changedFileError(err error, a *transcript.Append) error {
	if !api.HasCode(err, api.Conflict) {
		return err
	}
	if a.Parent.IsZero() {
		return fmt.Errorf("%w: the file was written anew, or an older reader read it; \"ledgerctl import --refresh FILE\" stores what it holds now, and what is in the ledger stays", err)
	}
	return fmt.Errorf("%w: something else follows %s in the ledger: the file was written anew, or an older reader read it; \"ledgerctl import --refresh FILE\" stores what it holds now, and what is in the ledger stays", err, a.Parent)
}
