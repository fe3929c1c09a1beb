package interchange

import (
	"cmp"
	"slices"

	"nexus/turns"
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
	UUID          string             `json:"uuid,omitzero"`            // of a compaction's or fork's line
	Messages      []string           `json:"messages,omitempty"`       // uuids of the lines in the messages half
	Response      []string           `json:"response,omitempty"`       // uuids of the lines in the response
	Message       string             `json:"message_id,omitzero"`      // the provider's id of the response
	Metadata      turns.Raw          `json:"metadata,omitempty"`       // compactMetadata or microcompactMetadata
	Cost          turns.Raw          `json:"cost,omitempty"`           // in dollars, as older versions wrote it
	Usage         turns.UsageDetails `json:"usage,omitzero"`
	workContext   `json:",inline"`
}

func (m claudeMeta) raw() turns.Raw {
	return encoded(m)
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
		if t.compaction {
			k.emitCompaction(t)
		} else {
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
	if b.forkedAt != nil {
		at := turns.Ref{Session: b.forkedAt.b.id, Turn: b.forkedAt.id}
		k.step(Step{Fork: &Fork{ID: b.id, At: at, Time: b.time, Meta: b.meta.raw()}})
		return
	}
	o := &Open{ID: b.id, Time: b.time, SpawnedBy: b.spawnedBy, Meta: b.meta.raw()}
	for t := b.tail; t != nil && t.b == b; t = t.parent {
		if t.body != nil {
			o.Model = t.body.model // of the first turn, the last seen here
		}
	}
	k.step(Step{Open: o})
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
	k.step(Step{Append: &Append{
		Session: t.b.id, ID: t.id, Parent: t.parentID(), Time: b.time, Model: b.model,
		Messages: b.inCallOrder(), Response: b.response, Usage: b.usage, Meta: b.meta.raw(),
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
// calls. Parallel calls end in any order.
func (b *claudeBody) inCallOrder() []turns.Message {
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
	out := make([]turns.Message, len(at))
	for i, j := range at {
		out[i] = b.messages[j]
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (k *claudeTree) emitCompaction(t *claudeTurn) {
	b := t.body
	c := b.compaction
	c.Session, c.ID, c.Parent, c.Time, c.Meta = t.b.id, t.id, t.parentID(), b.time, b.meta.raw()
	if !b.hasSummary {
		c.Dropped = true
		k.loss.add(0, "stored", "a compaction without a summary: what it covers is recorded as dropped", b.meta.UUID)
	}
	k.step(Step{Compaction: &c})
}
