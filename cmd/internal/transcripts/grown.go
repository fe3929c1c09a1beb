package transcripts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// splitTurns maps a turn of the source to the turns of the ledger that hold it, if that is
// not the one with its id: an import with --final stored the beginning while the file still
// grew, and a later one stored the rest as a turn after it.
type splitTurns map[turns.ID]struct{ first, last turns.ID }

func (p splitTurns) first(id turns.ID) turns.ID {
	if x, ok := p[id]; ok {
		return x.first
	}
	return id
}

func (p splitTurns) last(id turns.ID) turns.ID {
	if x, ok := p[id]; ok {
		return x.last
	}
	return id
}

// turnOfResult returns the turn of the ledger that holds a tool result of the source.
func (im *Importer) turnOfResult(ctx context.Context, session turns.ID, x transcript.ClearedResult) (turns.ID, error) {
	p, split := im.splits[x.Turn]
	for at := p.last; split && at != p.first; {
		t, err := im.Client.Turn(ctx, session, at)
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
	return im.splits.first(x.Turn), nil
}

// maxPieces is how many turns of the ledger are searched for a turn of the source.
const maxPieces = 64

// append does an append. dup says that it was done before. If the ledger holds the
// beginning of the turn, append adds the rest to that. It adds to the losses of rep the
// usage that no turn of the ledger can take.
func (im *Importer) append(ctx context.Context, a *transcript.Append, rep *Report) (dup bool, err error) {
	parent := im.splits.last(a.Parent)
	head, err := im.otherHead(ctx, a)
	if head.IsZero() && err == nil {
		var ack *api.Appended
		ack, err = im.Client.Append(ctx, a.Session, api.AppendTurn{ID: a.ID, Parent: parent, Messages: a.Messages, Response: a.Response,
			Model: a.Model, Usage: a.Usage, Time: alike.ClaimedTime(a.Time), Meta: a.Meta})
		if err == nil {
			if !ack.Duplicate {
				im.acked = ack.Position
			}
			return ack.Duplicate, nil
		}
	}
	if coded(err, api.Closed) { // blob.put is refused, whether the turn is stored or not
		if _, stored := im.Client.Turn(ctx, a.Session, a.ID); stored == nil {
			return true, nil
		}
	}
	if coded(err, api.IDReused) && !a.Branch.IsZero() {
		if t, ok := im.copyOf(ctx, a.Session, a.ID, a); ok {
			return true, im.noteLateUsage(ctx, t, a, rep)
		}
	}
	tip, next := head, a.ID
	var e *api.Error
	switch {
	case coded(err, api.IDReused):
		tip, next = a.ID, turns.DeriveID(a.ID.Time(), "rest", a.ID.String())
	case coded(err, api.Conflict) && errors.As(err, &e):
		s, _ := e.Details["head"].(string)
		if tip, _ = turns.ParseID(s); tip.IsZero() {
			return false, err
		}
	case err != nil:
		return false, err
	}
	stored, tip, ok := im.storedPieces(ctx, a.Session, tip, parent)
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
		if coded(err, api.IDReused) && alike.Bounded(stored[0].Meta, a.Meta, stored[0].Usage, a.Usage) {
			noteBound(stored[0].Meta, a.Meta, rep)
			return true, nil
		}
		return false, err // another time, usage or meta: the first stays
	case rest == nil:
		im.addSplit(a.ID, stored[0].ID, tip)
		return true, nil
	}
	rest.ID, rest.Parent = next, tip
	if dup, err = im.append(ctx, rest, rep); err == nil || coded(err, api.IDReused) {
		im.addSplit(a.ID, stored[0].ID, im.splits.last(next))
	}
	return dup, err
}

// otherHead returns the head of a session that has turns, but not the first turn a; zero
// for any other session or turn. The append of a first turn names no parent, so the
// ledger would put it after that head.
func (im *Importer) otherHead(ctx context.Context, a *transcript.Append) (head turns.ID, err error) {
	if !a.Parent.IsZero() || a.Continues {
		return turns.ID{}, nil
	}
	s, err := im.Client.Session(ctx, a.Session)
	if err != nil || s.Head == nil {
		return turns.ID{}, err
	}
	if _, err = im.Client.Turn(ctx, a.Session, a.ID); coded(err, api.NotFound) {
		return *s.Head, nil
	}
	return turns.ID{}, err
}

func (im *Importer) addSplit(id, first, last turns.ID) {
	if im.splits == nil {
		im.splits = make(splitTurns)
	}
	im.splits[id] = struct{ first, last turns.ID }{first, last}
}

// storedPieces returns the turns of a session after parent, up to tip, that can hold one
// turn of the source: a turn with messages after a response is the next one. last is the
// last of them, or of the compactions between. ok is false if there are none, or more
// than maxPieces.
func (im *Importer) storedPieces(ctx context.Context, session, tip, parent turns.ID) (out []*api.Turn, last turns.ID, ok bool) {
	list := api.ListTurns{At: tip, Page: api.Page{Limit: maxPieces}}
	if !parent.IsZero() {
		list.After = parent.String()
	}
	answered, n := false, 0
	for x, err := range im.Client.Turns(ctx, session, list) {
		if n++; err != nil || n > maxPieces {
			return nil, last, false
		}
		if x.Type != "normal" { // a compaction holds no messages
			last = x.ID
			continue
		}
		t, err := im.Client.Turn(ctx, session, x.ID)
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
	if !coded(err, api.Conflict) {
		return err
	}
	if a.Parent.IsZero() {
		return fmt.Errorf("%w: the file was written anew, or an older reader read it; \"ledgerctl import --refresh FILE\" stores what it holds now, and what is in the ledger stays", err)
	}
	return fmt.Errorf("%w: something else follows %s in the ledger: the file was written anew, or an older reader read it; \"ledgerctl import --refresh FILE\" stores what it holds now, and what is in the ledger stays", err, a.Parent)
}
