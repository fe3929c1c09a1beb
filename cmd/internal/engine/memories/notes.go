package memories

import (
	"context"
	"errors"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// maxNotes bounds the daily memories of [Memories.Notes].
const maxNotes = 1000

// Notes is what files of an agent's memory hold.
type Notes struct {
	Daily    []api.Memory  // in force, the newest by their time first
	Cut      bool          // there are older ones
	Document *api.Document // nil: none, or it can't be read
	Erased   bool          // it can't be read since a session that it came from was erased
}

// NotesAt returns the position of the newest event that may have changed an agent's
// notes, 0 if there is none.
func (ms *Memories) NotesAt(tenant, agent string) (at uint64, err error) {
	fold, err := ms.reader.Projections.Memories(tenant, agent)
	if err != nil {
		return 0, err
	}
	learned, err := ms.reader.Projections.LearnedAt(tenant, agent)
	return max(fold.Tail.Seq, learned), err
}

// Notes returns an agent's newest memories of kind daily that are in force, on every
// branch, and its document. A memory that can't be read is left out.
func (ms *Memories) Notes(ctx context.Context, tenant, agent string) (*Notes, error) {
	out, op := new(Notes), ms.opener()
	for m, err := range ms.reader.Projections.NewestDaily(tenant, agent) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		st := m.Now()
		if stateWord(st) != turns.Accepted.String() {
			continue
		}
		if len(out.Daily) == maxNotes {
			out.Cut = true
			break
		}
		if x := ms.describe(op, tenant, agent, m, st); x.Error == "" {
			out.Daily = append(out.Daily, *x)
		}
	}
	seq, ok, err := ms.reader.Projections.DocumentAt(tenant, agent, ms.reader.Projections.Applied().Seq)
	if err != nil || !ok {
		return out, err
	}
	out.Document, err = ms.documentAt(agent, seq)
	if out.Erased = errors.Is(err, ledger.ErrErased); out.Erased || errors.Is(err, ledger.ErrCorrupt) {
		out.Document, err = nil, nil
	}
	return out, err
}
