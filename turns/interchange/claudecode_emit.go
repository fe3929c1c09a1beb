package interchange

import (
	"cmp"
	"slices"

	"nexus/turns"
)

// ccContext is where an agent worked.
type ccContext struct {
	Cwd     string `json:"cwd,omitzero"`
	Branch  string `json:"git_branch,omitzero"`
	Version string `json:"version,omitzero"`
}

func (r *ccRecord) context() ccContext { return ccContext{r.cwd, r.branch, r.version} }

// setContext notes where rec was written; a line that does not say changes nothing.
func (b *ccBody) setContext(rec *ccRecord) {
	if c := rec.context(); c != (ccContext{}) {
		b.ctx = c
	}
}

// ccMeta is the meta object of a step. Context stands on sessions, and on
// turns where it changed.
type ccMeta struct {
	Source        string    `json:"source,omitzero"`
	Session       string    `json:"session_id,omitzero"`
	Agent         string    `json:"agent_id,omitzero"`
	Sidechain     bool      `json:"sidechain,omitzero"`
	SpawnedByTurn string    `json:"spawned_by_turn,omitzero"` // the turn with the call, in the session of SpawnedBy
	Restarts      string    `json:"restarts,omitzero"`        // the session whose first prompt was rewound
	UUID          string    `json:"uuid,omitzero"`            // of a compaction's or fork's line
	Messages      []string  `json:"messages,omitempty"`       // uuids of the lines in the messages half
	Response      []string  `json:"response,omitempty"`       // uuids of the lines in the response
	Message       string    `json:"message_id,omitzero"`      // the provider's id of the response
	Metadata      turns.Raw `json:"metadata,omitempty"`       // compactMetadata or microcompactMetadata
	ccContext     `json:",inline"`
}

func (m ccMeta) raw() turns.Raw {
	return encoded(m)
}

// emit gives t and, before it, every ancestor not given yet.
func (k *ccTree) emit(t *ccTurn) {
	if t.emitted {
		return
	}
	var path []*ccTurn
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

// openBranch gives the step that creates b, once.
func (k *ccTree) openBranch(b *ccBranch) {
	if b.opened {
		return
	}
	b.opened = true
	if b.fork != nil {
		at := turns.Ref{Session: b.fork.b.id, Turn: b.fork.id}
		k.step(Step{Fork: &Fork{ID: b.id, At: at, Time: b.time, Meta: b.meta.raw()}})
		return
	}
	o := &Open{ID: b.id, Time: b.time, SpawnedBy: b.spawned, Meta: b.meta.raw()}
	for t := b.tail; t != nil && t.b == b; t = t.parent {
		if t.body != nil {
			o.Model = t.body.model // of the first turn, the last seen here
		}
	}
	k.step(Step{Open: o})
}

// context is what of c is new on b, which it then is in force on.
func (b *ccBranch) context(c ccContext) ccContext {
	if c == (ccContext{}) || c == b.ctx {
		return ccContext{}
	}
	b.ctx = c
	return c
}

func (t *ccTurn) parentID() turns.ID {
	if t.parent == nil {
		return turns.ID{}
	}
	return t.parent.id
}

func (k *ccTree) emitTurn(t *ccTurn) {
	b := t.body
	b.meta.ccContext = t.b.context(b.ctx)
	k.step(Step{Append: &Append{
		Session: t.b.id, ID: t.id, Parent: t.parentID(), Time: b.time, Model: b.model,
		Messages: b.inCallOrder(), Response: b.resp, Usage: b.usage, Meta: b.meta.raw(),
	}})
}

// inCallOrder is the messages with each run of tool results in the order of
// their calls: parallel calls end in any order.
func (b *ccBody) inCallOrder() []turns.Message {
	at := make([]int, len(b.msgs))
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
		out[i] = b.msgs[j]
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (k *ccTree) emitCompaction(t *ccTurn) {
	b := t.body
	c := b.step
	c.Session, c.ID, c.Parent, c.Time, c.Meta = t.b.id, t.id, t.parentID(), b.time, b.meta.raw()
	if !b.summed {
		c.Dropped = true
		k.loss.add(0, "stored", "a compaction without a summary: what it covers is recorded as dropped", b.meta.UUID)
	}
	k.step(Step{Compaction: &c})
}
