package memories

import (
	"context"
	"errors"
	"strings"

	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// Found is a memory that a summarizer found in a session that has ended.
type Found struct {
	ID      turns.ID // the same for the same find, on every daemon
	Session turns.ID
	Kind    turns.MemoryKind
	Text    string
	Sources []api.TurnName
}

// Remember stores a find as a memory of the agent, and reports whether this or an earlier
// call of it did. As with those of a compaction, a text that the session sees already, or that
// was withdrawn or superseded, is not said again. A text that no memory may have is left out.
//
// Crash states: those of [Memories.Save].
func (ms *Memories) Remember(ctx context.Context, c reader.Caller, f Found) (stored bool, err error) {
	req := api.SaveMemory{Kind: f.Kind.String(), Text: strings.TrimSpace(f.Text), Session: f.Session, Sources: f.Sources}
	header, digest, err := ms.prepare(c, "memory.extract", &req)
	if errors.As(err, new(*turns.FieldError)) || errors.Is(err, turns.ErrErased) {
		return false, nil // as with a compaction: nothing is learned
	}
	if err != nil {
		return false, err
	}
	req.ID = f.ID
	_, err = ms.append(ctx, c, func(ledger.Memories) (*draft, error) {
		stored = false
		was, _, err := ms.stored(c, req.ID, digest)
		if was != nil || err != nil {
			stored = was != nil
			return nil, err
		}
		d, err := ms.draftMemory(ctx, c, &req, *header)
		if err != nil {
			return nil, err
		}
		known, err := ms.isKnown(c, d.event.Memory, req.Text)
		if err != nil || known {
			return nil, err
		}
		if b, ok := d.body.(*turns.MemoryBody); ok {
			b.Extracted = true
		}
		d.event.ID, d.event.Digest, stored = req.ID, digest, true
		return d, nil
	})
	if reused := new(api.Error); errors.As(err, &reused) && reused.Code == api.IDReused {
		return false, nil // the agent has another event of that id
	}
	return stored, err
}

// prepare checks a request of this daemon's own, and returns its header and its digest.
func (ms *Memories) prepare(c reader.Caller, verb string, req *api.SaveMemory) (*turns.Memory, turns.Hash, error) {
	header, err := ms.checkSave(req)
	if err != nil {
		return nil, turns.Hash{}, err
	}
	canonical, err := turns.EncodeJSON(*req)
	if err != nil {
		return nil, turns.Hash{}, err
	}
	return header, writer.Request{Verb: verb, Canonical: canonical}.Digest(), nil
}

// isKnown reports whether the agent has had a memory that says the same, in any state: to
// everybody, to main sessions, or on the same branch. One that only main sessions see now is
// not known to another session.
func (ms *Memories) isKnown(c reader.Caller, m *turns.Memory, text string) (bool, error) {
	key, err := ms.content.AgentKey(c.Tenant, c.Agent)
	if err != nil {
		return false, err
	}
	said := []turns.Hash{m.Text, seal.MemoryText(key, m.Kind, false, turns.ID{}, text)}
	if m.Private {
		said = append(said, seal.MemoryText(key, m.Kind, true, turns.ID{}, text))
	}
	for _, digest := range said {
		known, ok, err := ms.reader.Projections.MemoryOfText(c.Tenant, c.Agent, digest)
		if err != nil {
			return false, err
		}
		if ok && isSaid(known.Now(), m.Private, m.Branch) {
			return true, nil
		}
	}
	return false, nil
}

// isSaid reports whether a memory with this status says its text to whom another memory
// would: private or not, and on its branch. What was withdrawn is said to nobody again.
func isSaid(st ledger.MemoryStatus, private bool, branch turns.Ref) bool {
	return st.State == turns.Withdrawn || (!st.Private || private) && (st.Branch.IsZero() || st.Branch == branch)
}
