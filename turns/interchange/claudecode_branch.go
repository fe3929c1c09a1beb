package interchange

import (
	"nexus/turns"
)

const claudeSource = "claude-code"

// branchOf returns the place that rec follows, on its branch. a is the place of rec's
// parent, nil for a root.
func (k *claudeTree) branchOf(rec *claudeRecord, a *claudeAnchor) *claudeAnchor {
	switch {
	case a == nil && rec.sidechain:
		return k.tailOrRoot(k.sideBranch(rec, nil), rec.agent != "")
	case a == nil:
		return &claudeAnchor{b: k.mainBranch(rec)}
	case a.b.side && rec.sidechain && (rec.agent == "" || a.b.agent == "" || rec.agent == a.b.agent):
		return a
	case rec.sidechain:
		return k.tailOrRoot(k.sideBranch(rec, a), true)
	case a.b.side:
		k.loss.add(rec.line, "repaired", "its parent is in a sub-agent's chain; it follows the last turn of its session", rec.uuid)
		return k.tailAnchor(k.mainBranch(rec))
	case rec.session == "" || rec.session == a.b.source:
		return a
	case k.mains[rec.session] != nil:
		k.loss.add(rec.line, "repaired", "its parent is in another session; it follows the last turn of its own", rec.uuid)
		return k.tailAnchor(k.current[rec.session])
	case a.t == nil:
		return &claudeAnchor{b: k.mainBranch(rec)}
	}
	// A session that goes on where another stood: a resumed copy.
	k.emit(a.t)
	b := k.newBranch(rec, "session", "")
	b.source, b.forkedAt, b.meta.Session = rec.session, a.t, rec.session
	b.id = turns.DeriveID(rec.time, claudeSource, rec.session, "session", "")
	k.mains[rec.session] = b
	return &claudeAnchor{b: b, t: a.t, phase: afterMessages}
}

func (k *claudeTree) tailOrRoot(b *claudeBranch, tail bool) *claudeAnchor {
	if tail {
		return k.tailAnchor(b)
	}
	return &claudeAnchor{b: b}
}

// mainBranch returns the branch of rec's sessionId, and makes it if it is new.
func (k *claudeTree) mainBranch(rec *claudeRecord) *claudeBranch {
	if b := k.mains[rec.session]; b != nil {
		return b
	}
	name := ""
	if rec.session == "" { // other writers: the first line names the session
		name = rec.uuid
	}
	b := k.newBranch(rec, "session", name)
	b.spawnedBy = k.opt.SpawnedBy
	k.mains[rec.session] = b
	return b
}

// sideBranch returns the branch of a sub-agent, by its agentId or, in files without
// one, by the uuid of its root. parent is the place in a main chain that it hangs on,
// nil if there is none.
func (k *claudeTree) sideBranch(rec *claudeRecord, parent *claudeAnchor) *claudeBranch {
	name := rec.agent
	if name == "" {
		name = rec.uuid
	}
	key := keyOf(rec.session, name)
	if b := k.sides[key]; b != nil {
		return b
	}
	b := k.newBranch(rec, "sidechain", name)
	b.side, b.agent = true, rec.agent
	b.meta.Agent, b.meta.Sidechain = name, true
	b.spawnedBy = k.opt.SpawnedBy
	main := k.current[rec.session]
	if parent != nil {
		main = parent.b
	}
	if main != nil && !main.side {
		k.linkSpawner(b, main)
	}
	k.sides[key] = b
	return b
}

// linkSpawner links a sub-agent to main. The turn with the call is seldom finished while
// the agent works. So it is linked only if it was emitted; otherwise the meta holds its
// ID. After a rewind into results the turn with the call is before the fork: then the
// link names that turn's session.
func (k *claudeTree) linkSpawner(b, main *claudeBranch) {
	t := main.tail
	if t.open() && t.body.hasResults && t.parent != nil {
		t = t.parent
		main = t.b
	}
	b.spawnedBy = turns.Ref{Session: main.id}
	switch {
	case t == nil:
	case t.emitted:
		b.spawnedBy.Turn = t.id
	default:
		b.meta.SpawnedByTurn = t.id.String()
	}
	k.openBranch(main)
}

func (k *claudeTree) newBranch(rec *claudeRecord, kind, name string) *claudeBranch {
	return &claudeBranch{
		id:              turns.DeriveID(rec.time, claudeSource, rec.session, kind, name),
		source:          rec.session,
		time:            rec.time,
		recordedContext: rec.context(),
		meta:            claudeMeta{Source: claudeSource, Session: rec.session, workContext: rec.context()},
	}
}

// forkAt returns a new branch from t. It emits t and the turns that the rewind abandons
// first.
func (k *claudeTree) forkAt(rec *claudeRecord, t *claudeTurn) *claudeBranch {
	from := t.b
	k.emit(t)
	if t.continuation != nil && from.tail != nil {
		k.emit(from.tail)
	}
	b := k.newBranch(rec, "fork", rec.uuid)
	b.source, b.side, b.agent, b.forkedAt = from.source, from.side, from.agent, t
	b.meta.Agent, b.meta.Sidechain, b.meta.UUID = from.meta.Agent, from.meta.Sidechain, rec.uuid
	return b
}

// restart returns a new session for a prompt that goes back to before the first turn
// of b.
func (k *claudeTree) restart(rec *claudeRecord, b *claudeBranch) *claudeBranch {
	if b.tail != nil {
		k.emit(b.tail)
	}
	n := k.newBranch(rec, "restart", rec.uuid)
	n.source, n.side, n.agent = b.source, b.side, b.agent
	n.meta.Agent, n.meta.Sidechain, n.meta.Restarts = b.meta.Agent, b.meta.Sidechain, b.id.String()
	n.spawnedBy = b.spawnedBy
	k.loss.add(rec.line, "stored", "a rewind to before the first turn is a session of its own: there is no turn to fork from", rec.uuid)
	return n
}

// last returns the turn that the next turn of b continues: the tail, or the fork point
// of an empty branch.
func (b *claudeBranch) last() *claudeTurn {
	if b.tail != nil {
		return b.tail
	}
	return b.forkedAt
}

// newTurn begins a turn at the end of b. Its ID is derived from its first line.
func (k *claudeTree) newTurn(rec *claudeRecord, b *claudeBranch) *claudeTurn {
	t := &claudeTurn{
		b: b, parent: b.last(),
		id:   turns.DeriveID(rec.time, claudeSource, b.source, "turn", rec.uuid),
		body: &claudeBody{time: rec.time},
	}
	k.link(t)
	return t
}

func (k *claudeTree) link(t *claudeTurn) {
	if t.parent != nil {
		t.depth = t.parent.depth + 1
		if t.parent.b == t.b {
			t.parent.continuation = t
		}
	}
	t.b.tail = t
	if len(k.open) >= 64 && len(k.open) == cap(k.open) {
		n := 0
		for _, o := range k.open {
			if !o.emitted {
				k.open[n] = o
				n++
			}
		}
		clear(k.open[n:])
		k.open = k.open[:n]
	}
	k.open = append(k.open, t)
}
