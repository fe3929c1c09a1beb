package claude

import (
	"time"

	"github.com/google/uuid"

	"nexus/turns"
)

const claudeSource = "claude-code"

// claudeSession returns the id of the session with a sessionId. It has nothing of what a
// file holds, since other files name the session too: those of its sub-agents and of its
// forks.
func claudeSession(source string) turns.ID {
	return turns.DeriveID(claudeTime(source), claudeSource, source, "session", "")
}

// claudeSubagent returns the id of the session of a sub-agent with an agentId.
func claudeSubagent(source, agent string) turns.ID {
	return turns.DeriveID(claudeTime(source), claudeSource, source, "sidechain", agent)
}

// claudeTime returns the time in a UUID of version 7, and 1970 for another text.
func claudeTime(s string) time.Time {
	if u, err := uuid.Parse(s); err == nil && u.Version() == 7 {
		return time.Unix(u.Time().UnixTime()).UTC().Truncate(time.Millisecond)
	}
	return time.UnixMilli(0)
}

// recordID returns the id of a turn or compaction that begins with a line. A UUID names it
// in whatever session a copy of it stands; an id of another form, in one session only.
func recordID(at time.Time, source, kind, id string) turns.ID {
	if _, err := uuid.Parse(id); err == nil {
		return turns.DeriveID(at, claudeSource, kind, id)
	}
	return turns.DeriveID(at, claudeSource, source, kind, id)
}

// branchID returns the id of the session for a turn that begins with a line and does not
// follow the last turn of its own: that of the fork which the line begins if it is a rewind.
// An id of another form than a UUID names its turn in one session only: none.
func branchID(at time.Time, source, id string) turns.ID {
	if _, err := uuid.Parse(id); err != nil {
		return turns.ID{}
	}
	return turns.DeriveID(at, claudeSource, source, "fork", id)
}

// responseKey is the key of a response of a branch.
func responseKey(b *claudeBranch, message string) indexKey { return keyOf(b.id.String(), message) }

// branchOf returns the place that rec follows, on its branch. a is the place of rec's
// parent, nil for a root.
func (k *claudeTree) branchOf(rec *claudeRecord, a *claudeAnchor) *claudeAnchor {
	switch {
	case a == nil && rec.sidechain:
		return k.tailOrRoot(k.sideBranch(rec, nil), rec.agent != "")
	case a == nil:
		return &claudeAnchor{b: k.mainBranch(rec)}
	case a.b.side && rec.sidechain && a.b.takes(rec) && (rec.agent == "" || a.b.agent == "" || rec.agent == a.b.agent):
		return a
	case rec.sidechain:
		return k.tailOrRoot(k.sideBranch(rec, a), true)
	case a.b.side:
		k.Loss.Add(rec.line, "repaired", "its parent is in a sub-agent's chain; it follows the last turn of its session", rec.uuid)
		return k.tailAnchor(k.mainBranch(rec))
	case rec.session == a.b.source, rec.session == "" && a.b.takes(rec):
		return a
	case k.mains[rec.session] != nil && k.goesOn(rec, a):
		return k.inherited(rec, a)
	case k.mains[rec.session] != nil && (a.t == nil || !k.mains[rec.session].isEmpty()):
		k.Loss.Add(rec.line, "repaired", "its parent is in another session; it follows the last turn of its own", rec.uuid)
		return k.tailAnchor(k.currentOf(rec.session))
	case a.t == nil:
		return &claudeAnchor{b: k.mainBranch(rec)}
	}
	return k.resumed(rec, a)
}

// settleOwner decides once and for all whether the sessions that rec names are the file's own
// or ones that it copies from. No file that Claude Code wrote names one as both; where a file
// does, the first word counts. A copy from the file's own session is a line of it. A line
// which says that it was written in a session that the file copies from, or which names none
// behind a copy, is of the session that the file was copied into.
func (k *claudeTree) settleOwner(rec *claudeRecord) {
	name := func(session string, origin bool) (isOrigin bool) {
		if was, known := k.origins[session]; known {
			return was
		}
		k.origins[session] = origin
		return origin
	}
	named := rec.session
	switch {
	case rec.copied && !name(rec.session, true):
		rec.copied = false
	case rec.copied:
		if name(rec.into, false) {
			rec.into = k.copiedInto
		} else {
			k.copiedInto = rec.into
		}
		return
	case rec.session == "" && k.copiedInto != "":
		rec.session = k.copiedInto
		return
	case name(rec.session, false):
		rec.session = k.copiedInto
	default:
		return
	}
	k.Loss.Add(rec.line, "repaired", "the file names a session as its own and as one that it copies from; the line is taken for one of the file's own", named)
}

// takes reports whether a line can be on b: nothing but copies is on a branch that was copied
// from another session.
func (b *claudeBranch) takes(rec *claudeRecord) bool { return !b.copied || rec.copied }

// isEmpty reports whether nothing is on b but lines that stand for nothing.
func (b *claudeBranch) isEmpty() bool { return b.tail == nil && b.forkedAt == nil && !b.opened }

// currentOf returns the branch of a session that was last written to, and its first one if
// none was.
func (k *claudeTree) currentOf(session string) *claudeBranch {
	if b := k.current[session]; b != nil {
		return b
	}
	return k.mains[session]
}

// resumed returns the place of the first line of a session that goes on where another
// stood. A prompt that was copied with no response is repeated in the new session: the
// other one may have a response.
func (k *claudeTree) resumed(rec *claudeRecord, a *claudeAnchor) *claudeAnchor {
	t := a.t
	repeats := t.copied && t.open()
	if repeats {
		t = t.parent
	}
	b := k.mainBranch(rec)
	b.meta.ForkedFrom = a.b.source
	if t != nil {
		k.emit(t)
		b.forkedAt = t
	}
	if !repeats {
		return &claudeAnchor{b: b, t: t, phase: afterMessages}
	}
	k.Loss.Add(rec.line, "repaired", "it follows a prompt without a response that was copied from another session; the prompt is repeated here", rec.uuid)
	n := k.newTurn(rec, b)
	n.body.repeat(a.t.body, a.messageCount)
	return &claudeAnchor{b: b, t: n, phase: inMessages, messageCount: len(n.body.messages)}
}

// goesOn reports whether a is on the path to the session of rec, above its own turns.
func (k *claudeTree) goesOn(rec *claudeRecord, a *claudeAnchor) bool {
	from := k.mains[rec.session].forkedAt
	return a.t != nil && from != nil && isOnPath(from, a.t)
}

// inherited returns the place of a line that hangs on a turn that its session begins with
// and that is of another session: a prompt goes back to there.
func (k *claudeTree) inherited(rec *claudeRecord, a *claudeAnchor) *claudeAnchor {
	main := k.mains[rec.session]
	switch {
	case main.tail == nil && main.forkedAt == a.t:
		return &claudeAnchor{b: main, t: a.t, phase: afterMessages}
	case rec.kind != userLine || rec.meta || k.hasOrphanResult(rec):
		return k.tailAnchor(k.currentOf(rec.session))
	}
	if a.t.open() {
		return k.tailAnchor(k.currentOf(rec.session))
	}
	b := k.forkAt(rec, a.t, main)
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
	main := k.currentOf(rec.session)
	if parent != nil {
		main = parent.b
	}
	switch {
	case main != nil && !main.side && !main.isEmpty():
		k.linkSpawner(b, main)
	case b.spawnedBy.IsZero() && rec.session != "": // a file of its own: the main session is in another
		b.spawnedBy = turns.Ref{Session: claudeSession(rec.session)}
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
	b := &claudeBranch{
		id:              turns.DeriveID(rec.time, claudeSource, rec.session, kind, name),
		source:          rec.session,
		time:            rec.time,
		recordedContext: rec.context(),
		copied:          rec.copied,
		firstLine:       k.lineCount,
		lastLine:        k.lineCount,
		meta:            claudeMeta{Source: claudeSource, Session: rec.session, workContext: rec.context()},
	}
	switch {
	case kind == "session" && name == "":
		b.id = claudeSession(rec.session)
	case kind == "sidechain" && rec.agent != "":
		b.id = claudeSubagent(rec.session, rec.agent)
	}
	if kind != "sidechain" && !rec.sidechain {
		k.branches[rec.session] = append(k.branches[rec.session], b)
	}
	return b
}

// forkAt returns a new branch from t for a rewind on the branch of, whose first turn may
// follow a turn of another session. It emits t and the turns that the rewind abandons first.
func (k *claudeTree) forkAt(rec *claudeRecord, t *claudeTurn, of *claudeBranch) *claudeBranch {
	from := t.b
	k.emit(t)
	if t.continuation != nil && from.tail != nil {
		k.emit(from.tail)
	}
	b := k.newBranch(rec, "fork", rec.uuid)
	b.source, b.side, b.agent, b.forkedAt = of.source, of.side, of.agent, t
	b.meta.Agent, b.meta.Sidechain, b.meta.UUID = of.meta.Agent, of.meta.Sidechain, rec.uuid
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
	k.Loss.Add(rec.line, "stored", "a rewind to before the first turn is a session of its own: there is no turn to fork from", rec.uuid)
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
		b: b, parent: b.last(), copied: rec.copied && b.copied,
		id: recordID(rec.time, b.source, "turn", rec.uuid), first: keyOf(rec.uuid), branch: branchID(rec.time, b.source, rec.uuid),
		body: &claudeBody{},
	}
	t.body.setTime(rec.time, k.lastTime)
	b.begin(rec)
	k.link(t)
	return t
}

// begin takes the time and the context of the first line of a turn for those of a branch
// without turns. The lines before it, which stand for nothing, have none or others.
func (b *claudeBranch) begin(rec *claudeRecord) {
	if b.tail == nil && !b.opened {
		b.time, b.recordedContext, b.meta.workContext = rec.time, rec.context(), rec.context()
	}
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
