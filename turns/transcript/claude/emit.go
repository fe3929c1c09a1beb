package claude

import (
	"slices"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// emit emits t and, before it, every ancestor that was not emitted yet.
func (k *tree) emit(t *turn) {
	if t.emitted {
		return
	}
	var path []*turn
	for ; t != nil && !t.emitted; t = t.parent {
		path = append(path, t)
	}
	for _, t := range slices.Backward(path) {
		k.openBranch(t.b)
		switch {
		case t.copied && !k.opt.Copied: // the ledger has it
		case t.compaction:
			k.emitCompaction(t)
		default:
			k.emitTurn(t)
		}
		t.emitted, t.body = true, nil
	}
}

// openBranch emits the step that creates b, once.
func (k *tree) openBranch(b *branch) {
	if b.opened {
		return
	}
	b.opened = true
	if b.copied && !k.opt.Copied {
		return // the ledger has it
	}
	if b.forkedAt != nil {
		at := turns.Ref{Session: b.forkedAt.b.id, Turn: b.forkedAt.id}
		k.Step(transcript.Step{Fork: &transcript.Fork{ID: b.id, At: at, Time: b.time, Meta: b.meta.raw(), First: b.first(), Else: k.otherPlaces(b.forkedAt)}})
		return
	}
	o := &transcript.Open{ID: b.id, Time: b.time, SpawnedBy: b.spawnedBy, Meta: b.meta.raw()}
	for t := b.tail; t != nil && t.b == b; t = t.parent {
		if t.body != nil && t.body.model != turns.Synthetic {
			o.Model = t.body.model // of the first turn, the last seen here
		}
	}
	k.Step(transcript.Step{Open: o})
}

// first returns the first turn of b, if that has the same id in all files.
func (b *branch) first() (id turns.ID) {
	for t := b.tail; t != nil && t.b == b; t = t.parent {
		if id = t.id; t.branch.IsZero() {
			id = turns.ID{}
		}
	}
	return id
}

// maxOtherPlaces is how many branches of a session are searched for a turn.
const maxOtherPlaces = 64

// otherPlaces returns where the ledger may have a copied turn besides the session that the
// copy names. That session's own file says on which of its branches the turn is. A branch
// has the id that its first line gives it.
func (k *tree) otherPlaces(at *turn) (out []turns.Ref) {
	if !at.copied {
		return nil
	}
	for t := at; t != nil && t.copied && len(out) < maxOtherPlaces; t = t.parent {
		if !t.branch.IsZero() && t.branch != at.b.id {
			out = append(out, turns.Ref{Session: t.branch, Turn: at.id})
		}
	}
	return out
}

// context returns c if it differs from the context that the turns of b recorded last, and
// the zero value otherwise. The caller records it.
func (b *branch) context(c workContext) workContext {
	if c == (workContext{}) || c == b.recordedContext {
		return workContext{}
	}
	b.recordedContext = c
	return c
}

func (t *turn) parentID() turns.ID {
	if t.parent == nil {
		return turns.ID{}
	}
	return t.parent.id
}

func (k *tree) emitTurn(t *turn) {
	b := t.body
	b.meta.workContext = t.b.context(b.context)
	b.meta.Usage.OutputAtStart = b.isCountedAtStart()
	b.meta.Calls = b.calls
	messages, program := b.inCallOrder()
	k.Step(transcript.Step{Append: &transcript.Append{
		Session: t.b.id, ID: t.id, Parent: t.parentID(), Time: b.time, Model: b.model,
		Branch: t.branch, Messages: messages, Response: b.response, Usage: b.usage, Meta: values.WithProgramMessages(values.WithTimeBound(b.meta.raw(), b.bound), program),
	}})
}

func (k *tree) emitCompaction(t *turn) {
	b := t.body
	c := b.compaction
	c.Session, c.ID, c.Parent, c.Time, c.Meta = t.b.id, t.id, t.parentID(), b.time, values.WithTimeBound(b.meta.raw(), b.bound)
	if !b.hasSummary {
		c.Dropped = true
		k.Loss.Add(0, "stored", "a compaction without a summary: what it covers is recorded as dropped", b.meta.UUID)
	}
	k.Step(transcript.Step{Compaction: &c})
}
