package claude

import (
	"cmp"
	"slices"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// workContext is where an agent worked.
type workContext struct {
	Cwd     string `json:"cwd,omitzero"`
	Branch  string `json:"git_branch,omitzero"`
	Version string `json:"version,omitzero"`
}

func (r *claudeRecord) context() workContext { return workContext{r.cwd, r.branch, r.version} }

// setContext sets the context to that of rec, if rec states one.
func (b *claudeBody) setContext(rec *claudeRecord) {
	if c := rec.context(); c != (workContext{}) {
		b.context = c
	}
}

// claudeMeta is the meta object of a step. Context is on sessions, and on
// turns where it changed.
type claudeMeta struct {
	Source        string             `json:"source,omitzero"`
	Session       string             `json:"session_id,omitzero"`
	Agent         string             `json:"agent_id,omitzero"`
	Sidechain     bool               `json:"sidechain,omitzero"`
	SpawnedByTurn string             `json:"spawned_by_turn,omitzero"` // the turn with the call, in the session of SpawnedBy
	Restarts      string             `json:"restarts,omitzero"`        // the session whose first prompt was rewound
	ForkedFrom    string             `json:"forked_from,omitzero"`     // sessionId of the session that it goes on from
	UUID          string             `json:"uuid,omitzero"`            // of a compaction's or fork's line
	Messages      []string           `json:"messages,omitempty"`       // uuids of the lines in the messages half
	Response      []string           `json:"response,omitempty"`       // uuids of the lines in the response
	Message       string             `json:"message_id,omitzero"`      // the provider's id of the response
	Metadata      turns.Raw          `json:"metadata,omitempty"`       // compactMetadata or microcompactMetadata
	Cost          turns.Raw          `json:"cost,omitempty"`           // in dollars, as older versions wrote it
	Usage         turns.UsageDetails `json:"usage,omitzero"`
	Calls         []turns.ModelCall  `json:"calls,omitempty"`
	workContext   `json:",inline"`
}

func (m claudeMeta) raw() turns.Raw {
	return values.Encoded(m)
}

// emit emits t and, before it, every ancestor that was not emitted yet.
func (k *claudeTree) emit(t *claudeTurn) {
	if t.emitted {
		return
	}
	var path []*claudeTurn
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
func (k *claudeTree) openBranch(b *claudeBranch) {
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
func (b *claudeBranch) first() (id turns.ID) {
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
func (k *claudeTree) otherPlaces(at *claudeTurn) (out []turns.Ref) {
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
func (b *claudeBranch) context(c workContext) workContext {
	if c == (workContext{}) || c == b.recordedContext {
		return workContext{}
	}
	b.recordedContext = c
	return c
}

func (t *claudeTurn) parentID() turns.ID {
	if t.parent == nil {
		return turns.ID{}
	}
	return t.parent.id
}

func (k *claudeTree) emitTurn(t *claudeTurn) {
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

// isCountedAtStart reports whether the output that b reports is that at the start of the
// stream. Versions that write no stop reason repeat that count on each line of a message.
// A token of text has about four bytes; a count of less than half of that can't be true.
func (b *claudeBody) isCountedAtStart() bool {
	if b.usage == nil || b.response == nil || b.response.FinishReason != "" {
		return false
	}
	size := 0
	for i := range b.response.Parts {
		size += len(b.response.Parts[i].ContentBytes())
	}
	return b.usage.OutputTokens < uint64(size)/8
}

// inCallOrder returns the messages with each run of tool results in the order of their
// calls, and the indexes of those that a program wrote. Parallel calls end in any order.
func (b *claudeBody) inCallOrder() (out []turns.Message, program []int) {
	at := make([]int, len(b.messages))
	for i := range at {
		at[i] = i
	}
	for i := 0; i < len(at); {
		j := i
		for j < len(at) && b.order[j] >= 0 {
			j++
		}
		slices.SortStableFunc(at[i:j], func(x, y int) int { return cmp.Compare(b.order[x], b.order[y]) })
		i = max(j, i+1)
	}
	for i, j := range at {
		out = append(out, b.messages[j])
		if b.program[j] {
			program = append(program, i)
		}
	}
	return out, program
}

func (k *claudeTree) emitCompaction(t *claudeTurn) {
	b := t.body
	c := b.compaction
	c.Session, c.ID, c.Parent, c.Time, c.Meta = t.b.id, t.id, t.parentID(), b.time, values.WithTimeBound(b.meta.raw(), b.bound)
	if !b.hasSummary {
		c.Dropped = true
		k.Loss.Add(0, "stored", "a compaction without a summary: what it covers is recorded as dropped", b.meta.UUID)
	}
	k.Step(transcript.Step{Compaction: &c})
}
