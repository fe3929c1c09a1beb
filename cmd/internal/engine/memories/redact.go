package memories

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"nexus/cmd/internal/engine/erasure/mark"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
)

// Redact is memory.redact: memories of an agent that have a text are withdrawn, its document has markers in the places of the text, and
// the keys of the events that have it are taken. What a compaction learned is of its session, and turn.redact takes that.
//
// Crash states: a memory is withdrawn, and a document replaced, before any key is taken. A call again finds those whose keys are left.
//
// Errors: those of MayErase; [api.Malformed] for a text that is too short.
func (ms *Memories) Redact(ctx context.Context, c reader.Caller, req api.RedactMemories) (*api.RedactedMemories, error) {
	if err := ms.MayErase(c, req.Ground); err != nil {
		return nil, err
	}
	if err := mark.Check("/text", req.Text); err != nil {
		return nil, err
	}
	if req.Agent == "" {
		return nil, api.FieldErrorf("/agent", "missing: name the agent whose memories are meant")
	}
	as := reader.Caller{Tenant: c.Tenant, Agent: req.Agent, Key: c.Key}
	text := mark.NewText(req.Text)
	out := &api.RedactedMemories{Agent: req.Agent, DryRun: req.DryRun, Memories: []turns.ID{}}
	fold, err := ms.catchUp(ctx, c.Tenant, req.Agent)
	if err != nil {
		return nil, err
	}
	var taken []uint64 // ordinals of events
	stored := false
	for m, err := range ms.reader.Projections.ListMemories(c.Tenant, req.Agent, projections.MemoryPlace{}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if m.Item > 0 {
			continue
		}
		o, ev, err := ms.opener().textOf(m)
		if errors.Is(err, turns.ErrErased) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !text.In([]byte(o.Text)) {
			continue
		}
		out.Memories = append(out.Memories, m.ID)
		taken = append(taken, ev.Index)
		again, err := ms.reader.Projections.MemoryEvidence(c.Tenant, req.Agent, m.ID, int(min(fold.Stored, 1<<20)))
		if err != nil {
			return nil, err
		}
		for _, p := range again { // it was saved more than once
			if ev, err := ms.eventAt(p.Seq); err != nil {
				return nil, err
			} else if ev.Kind == turns.KindMemory {
				taken = append(taken, ev.Index)
			}
		}
		if req.DryRun || m.Now().State == turns.Withdrawn {
			continue
		}
		if err := ms.withdraw(ctx, as, m.ID); err != nil {
			return nil, err
		}
		stored = true
	}
	versions, replaced, err := ms.redactDocument(ctx, as, text, req.DryRun)
	if err != nil {
		return nil, err
	}
	out.Documents, taken, stored = uint64(len(versions)), append(taken, versions...), stored || replaced
	if out.Done = true; len(taken) == 0 || req.DryRun {
		out.Done = len(taken) == 0
		return out, nil
	}
	return out, ms.take(ctx, as, taken)
}

// withdraw stores that a memory is withdrawn, whoever sees it.
func (ms *Memories) withdraw(ctx context.Context, as reader.Caller, memory turns.ID) error {
	_, err := ms.append(ctx, as, func(ledger.Memories) (*draft, error) {
		m, err := ms.reader.Projections.Memory(as.Tenant, as.Agent, memory)
		if err != nil || m.Now().State == turns.Withdrawn {
			return nil, err
		}
		id, err := ms.writer.NewID(turns.ID{})
		return &draft{event: &turns.Event{ID: id, Kind: turns.KindMemoryChanged, Memory: &turns.Memory{State: turns.Withdrawn, Of: m.ID}}, body: &turns.MemoryChangedBody{Reason: "redacted"}}, err
	})
	return err
}

// redactDocument replaces the agent's document by one with markers, if it has the text, and returns the ordinals of the versions that have it.
func (ms *Memories) redactDocument(ctx context.Context, as reader.Caller, text *mark.Text, dry bool) (taken []uint64, replaced bool, err error) {
	fold, err := ms.catchUp(ctx, as.Tenant, as.Agent)
	if err != nil {
		return nil, false, err
	}
	for seq := fold.Document.Seq; seq > 0; {
		at, ok, err := ms.reader.Projections.DocumentAt(as.Tenant, as.Agent, seq)
		if err != nil || !ok {
			return taken, replaced, err
		}
		ev, err := ms.eventAt(at)
		if err != nil {
			return taken, replaced, err
		}
		body := new(turns.DocumentBody)
		switch err := ms.content.Open(ev, body); {
		case errors.Is(err, turns.ErrErased):
		case err != nil:
			return taken, replaced, err
		case text.In([]byte(body.Text)):
			if at == fold.Document.Seq && !dry {
				marked := text.Fresh().String(body.Text)
				if _, err := ms.replace(ctx, as, &api.MemoryDocument{Text: &marked, If: strconv.FormatUint(ev.Document.Version, 10)}, nil); err != nil {
					return taken, replaced, err
				}
				replaced = true
			}
			taken = append(taken, ev.Index)
		}
		seq = at - 1
	}
	return taken, replaced, nil
}

// take takes the keys of events of an agent's chain, which nobody adds to meanwhile.
func (ms *Memories) take(ctx context.Context, as reader.Caller, indexes []uint64) error {
	_, release, err := ms.writer.Hold(ctx, "memories "+as.Actor())
	if err != nil {
		return err
	}
	defer release()
	fold, err := ms.catchUp(ctx, as.Tenant, as.Agent)
	if err != nil {
		return err
	}
	key, err := ms.content.AgentKeyID(as.Tenant, as.Agent)
	if err != nil {
		return err
	}
	if err := ms.content.Keys.Puncture(key, fold.Stored, indexes...); err != nil && !errors.Is(err, turns.ErrErased) {
		return fmt.Errorf("%w: keys of memories are not taken yet: %w", ledger.ErrUnavailable, err)
	}
	return nil
}
