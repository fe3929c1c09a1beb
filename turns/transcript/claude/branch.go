package claude

import (
	"time"

	"github.com/google/uuid"

	"nexus/turns"
	"nexus/turns/transcript/claude/record"
)

const sourceName = "claude-code"

// sessionID returns the id of the session with a sessionId. It has nothing of what a
// file holds, since other files name the session too: those of its sub-agents and of its
// forks.
func sessionID(source string) turns.ID {
	return turns.DeriveID(timeIn(source), sourceName, source, "session", "")
}

// subagentID returns the id of the session of a sub-agent with an agentId.
func subagentID(source, agent string) turns.ID {
	return turns.DeriveID(timeIn(source), sourceName, source, "sidechain", agent)
}

// timeIn returns the time in a UUID of version 7, and 1970 for another text.
func timeIn(s string) time.Time {
	if u, err := uuid.Parse(s); err == nil && u.Version() == 7 {
		return time.Unix(u.Time().UnixTime()).UTC().Truncate(time.Millisecond)
	}
	return time.UnixMilli(0)
}

// recordID returns the id of a turn or compaction that begins with a line. A UUID names it
// in whatever session a copy of it stands; an id of another form, in one session only.
func recordID(at time.Time, source, kind, id string) turns.ID {
	if _, err := uuid.Parse(id); err == nil {
		return turns.DeriveID(at, sourceName, kind, id)
	}
	return turns.DeriveID(at, sourceName, source, kind, id)
}

// branchID returns the id of the session for a turn that begins with a line and does not
// follow the last turn of its own: that of the fork which the line begins if it is a rewind.
// An id of another form than a UUID names its turn in one session only: none.
func branchID(at time.Time, source, id string) turns.ID {
	if _, err := uuid.Parse(id); err != nil {
		return turns.ID{}
	}
	return turns.DeriveID(at, sourceName, source, "fork", id)
}

// responseKey is the key of a response of a branch.
func responseKey(b *branch, message string) indexKey { return keyOf(b.id.String(), message) }

// branchOf returns the place that rec follows, on its branch. a is the place of rec's
// parent, nil for a root.
func (k *tree) branchOf(rec *record.Line, a *anchor) *anchor {
	switch {
	case a == nil && rec.Sidechain:
		return k.tailOrRoot(k.sideBranch(rec, nil), rec.Agent != "")
	case a == nil:
		return &anchor{b: k.mainBranch(rec)}
	case a.b.side && rec.Sidechain && a.b.takes(rec) && (rec.Agent == "" || a.b.agent == "" || rec.Agent == a.b.agent):
		return a
	case rec.Sidechain:
		return k.tailOrRoot(k.sideBranch(rec, a), true)
	case a.b.side:
		k.Loss.Add(rec.Number, "repaired", "its parent is in a sub-agent's chain; it follows the last turn of its session", rec.UUID)
		return k.tailAnchor(k.mainBranch(rec))
	case rec.Session == a.b.source, rec.Session == "" && a.b.takes(rec):
		return a
	case k.mains[rec.Session] != nil && k.goesOn(rec, a):
		return k.inherited(rec, a)
	case k.mains[rec.Session] != nil && (a.t == nil || !k.mains[rec.Session].isEmpty()):
		k.Loss.Add(rec.Number, "repaired", "its parent is in another session; it follows the last turn of its own", rec.UUID)
		return k.tailAnchor(k.currentOf(rec.Session))
	case a.t == nil:
		return &anchor{b: k.mainBranch(rec)}
	}
	return k.resumed(rec, a)
}

// settleOwner decides once and for all whether the sessions that rec names are the file's own
// or ones that it copies from. No file that Claude Code wrote names one as both; where a file
// does, the first word counts. A copy from the file's own session is a line of it. A line
// which says that it was written in a session that the file copies from, or which names none
// behind a copy, is of the session that the file was copied into.
func (k *tree) settleOwner(rec *record.Line) {
	name := func(session string, origin bool) (isOrigin bool) {
		if was, known := k.origins[session]; known {
			return was
		}
		k.origins[session] = origin
		return origin
	}
	named := rec.Session
	switch {
	case rec.Copied && !name(rec.Session, true):
		rec.Copied = false
	case rec.Copied:
		if name(rec.Into, false) {
			rec.Into = k.copiedInto
		} else {
			k.copiedInto = rec.Into
		}
		return
	case rec.Session == "" && k.copiedInto != "":
		rec.Session = k.copiedInto
		return
	case name(rec.Session, false):
		rec.Session = k.copiedInto
	default:
		return
	}
	k.Loss.Add(rec.Number, "repaired", "the file names a session as its own and as one that it copies from; the line is taken for one of the file's own", named)
}

// takes reports whether a line can be on b: nothing but copies is on a branch that was copied
// from another session.
func (b *branch) takes(rec *record.Line) bool { return !b.copied || rec.Copied }

// isEmpty reports whether nothing is on b but lines that stand for nothing.
func (b *branch) isEmpty() bool { return b.tail == nil && b.forkedAt == nil && !b.opened }

// currentOf returns the branch of a session that was last written to, and its first one if
// none was.
func (k *tree) currentOf(session string) *branch {
	if b := k.current[session]; b != nil {
		return b
	}
	return k.mains[session]
}

// resumed returns the place of the first line of a session that goes on where another
// stood. A prompt that was copied with no response is repeated in the new session: the
// other one may have a response.
func (k *tree) resumed(rec *record.Line, a *anchor) *anchor {
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
		return &anchor{b: b, t: t, phase: afterMessages}
	}
	k.Loss.Add(rec.Number, "repaired", "it follows a prompt without a response that was copied from another session; the prompt is repeated here", rec.UUID)
	n := k.newTurn(rec, b)
	n.body.repeat(a.t.body, a.messageCount)
	return &anchor{b: b, t: n, phase: inMessages, messageCount: len(n.body.messages)}
}

// goesOn reports whether a is on the path to the session of rec, above its own turns.
func (k *tree) goesOn(rec *record.Line, a *anchor) bool {
	from := k.mains[rec.Session].forkedAt
	return a.t != nil && from != nil && isOnPath(from, a.t)
}

// inherited returns the place of a line that hangs on a turn that its session begins with
// and that is of another session: a prompt goes back to there.
func (k *tree) inherited(rec *record.Line, a *anchor) *anchor {
	main := k.mains[rec.Session]
	switch {
	case main.tail == nil && main.forkedAt == a.t:
		return &anchor{b: main, t: a.t, phase: afterMessages}
	case rec.Kind != record.User || rec.Meta || k.hasOrphanResult(rec):
		return k.tailAnchor(k.currentOf(rec.Session))
	}
	if a.t.open() {
		return k.tailAnchor(k.currentOf(rec.Session))
	}
	b := k.forkAt(rec, a.t, main)
	return &anchor{b: b, t: a.t, phase: afterMessages}
}

func (k *tree) tailOrRoot(b *branch, tail bool) *anchor {
	if tail {
		return k.tailAnchor(b)
	}
	return &anchor{b: b}
}

// mainBranch returns the branch of rec's sessionId, and makes it if it is new.
func (k *tree) mainBranch(rec *record.Line) *branch {
	if b := k.mains[rec.Session]; b != nil {
		return b
	}
	name := ""
	if rec.Session == "" { // other writers: the first line names the session
		name = rec.UUID
	}
	b := k.newBranch(rec, "session", name)
	b.spawnedBy = k.opt.SpawnedBy
	k.mains[rec.Session] = b
	return b
}

// sideBranch returns the branch of a sub-agent, by its agentId or, in files without
// one, by the uuid of its root. parent is the place in a main chain that it hangs on,
// nil if there is none.
func (k *tree) sideBranch(rec *record.Line, parent *anchor) *branch {
	name := rec.Agent
	if name == "" {
		name = rec.UUID
	}
	key := keyOf(rec.Session, name)
	if b := k.sides[key]; b != nil {
		return b
	}
	b := k.newBranch(rec, "sidechain", name)
	b.side, b.agent = true, rec.Agent
	b.meta.Agent, b.meta.Sidechain = name, true
	b.spawnedBy = k.opt.SpawnedBy
	main := k.currentOf(rec.Session)
	if parent != nil {
		main = parent.b
	}
	switch {
	case main != nil && !main.side && !main.isEmpty():
		k.linkSpawner(b, main)
	case b.spawnedBy.IsZero() && rec.Session != "": // a file of its own: the main session is in another
		b.spawnedBy = turns.Ref{Session: sessionID(rec.Session)}
	}
	k.sides[key] = b
	return b
}

// linkSpawner links a sub-agent to main. The turn with the call is seldom finished while
// the agent works. So it is linked only if it was emitted; otherwise the meta holds its
// ID. After a rewind into results the turn with the call is before the fork: then the
// link names that turn's session.
func (k *tree) linkSpawner(b, main *branch) {
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

func (k *tree) newBranch(rec *record.Line, kind, name string) *branch {
	b := &branch{
		id:              turns.DeriveID(rec.Time, sourceName, rec.Session, kind, name),
		source:          rec.Session,
		time:            rec.Time,
		recordedContext: contextOf(rec),
		copied:          rec.Copied,
		firstLine:       k.lineCount,
		lastLine:        k.lineCount,
		meta:            stepMeta{Source: sourceName, Session: rec.Session, workContext: contextOf(rec)},
	}
	switch {
	case kind == "session" && name == "":
		b.id = sessionID(rec.Session)
	case kind == "sidechain" && rec.Agent != "":
		b.id = subagentID(rec.Session, rec.Agent)
	}
	if kind != "sidechain" && !rec.Sidechain {
		k.branches[rec.Session] = append(k.branches[rec.Session], b)
	}
	return b
}

// forkAt returns a new branch from t for a rewind on the branch of, whose first turn may
// follow a turn of another session. It emits t and the turns that the rewind abandons first.
func (k *tree) forkAt(rec *record.Line, t *turn, of *branch) *branch {
	from := t.b
	k.emit(t)
	if t.continuation != nil && from.tail != nil {
		k.emit(from.tail)
	}
	b := k.newBranch(rec, "fork", rec.UUID)
	b.source, b.side, b.agent, b.forkedAt = of.source, of.side, of.agent, t
	b.meta.Agent, b.meta.Sidechain, b.meta.UUID = of.meta.Agent, of.meta.Sidechain, rec.UUID
	return b
}

// restart returns a new session for a prompt that goes back to before the first turn
// of b.
func (k *tree) restart(rec *record.Line, b *branch) *branch {
	if b.tail != nil {
		k.emit(b.tail)
	}
	n := k.newBranch(rec, "restart", rec.UUID)
	n.source, n.side, n.agent = b.source, b.side, b.agent
	n.meta.Agent, n.meta.Sidechain, n.meta.Restarts = b.meta.Agent, b.meta.Sidechain, b.id.String()
	n.spawnedBy = b.spawnedBy
	k.Loss.Add(rec.Number, "stored", "a rewind to before the first turn is a session of its own: there is no turn to fork from", rec.UUID)
	return n
}

// newTurn begins a turn at the end of b. Its ID is derived from its first line.
func (k *tree) newTurn(rec *record.Line, b *branch) *turn {
	t := &turn{
		b: b, parent: b.last(), copied: rec.Copied && b.copied,
		id: recordID(rec.Time, b.source, "turn", rec.UUID), first: keyOf(rec.UUID), branch: branchID(rec.Time, b.source, rec.UUID),
		body: &body{},
	}
	t.body.setTime(rec.Time, k.lastTime)
	b.begin(rec)
	k.link(t)
	return t
}

// begin takes the time and the context of the first line of a turn for those of a branch
// without turns. The lines before it, which stand for nothing, have none or others.
func (b *branch) begin(rec *record.Line) {
	if b.tail == nil && !b.opened {
		b.time, b.recordedContext, b.meta.workContext = rec.Time, contextOf(rec), contextOf(rec)
	}
}

func (k *tree) link(t *turn) {
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
