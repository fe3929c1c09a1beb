package pi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// piReader is the fold over the entries of a session.
type piReader struct {
	transcript.Source
	opt transcript.Options

	source     string // the session's id
	session    turns.ID
	start      time.Time
	lastTime   time.Time       // of the entries that were read: the last that one states
	meta       piMeta          // of the session
	parent     piParent        // the session that the file was forked from
	open       transcript.Open // the session, until it is emitted
	opened     bool
	ownBegan   bool      // an entry was read that is not copied
	entries    []*piNode // in the order in which they were placed
	last       *piNode   // of the entry read last
	byID       map[string]*piNode
	tips       map[turns.ID]turns.ID // last turn of each session
	calls      transcript.CallIDs
	seen       map[string][sha256.Size]byte // entries read, by id
	equal      map[[sha256.Size]byte]int    // entries without an id, by their bytes
	waiting    []piWaiting                  // for their parent, in the file's order
	entryCount int                          // entries read
}

// piParent is the session that a file was forked from. The zero session: the file is no
// fork, or does not say well enough what it was forked from.
type piParent struct {
	source  string
	session turns.ID
	start   time.Time
	opened  bool
}

// maxWaitingEntries is how many entries an entry waits for its parent.
const maxWaitingEntries = 64

// piWaiting is an entry whose parent was not read yet.
type piWaiting struct {
	line   int
	entry  piEntry
	node   *piNode
	before *piNode // of the entry before it
	until  int     // it stops waiting when as many entries are read
}

// piNode is an entry's place in the tree.
type piNode struct {
	parent     *piNode
	children   int
	lastTurn   turns.Ref    // last turn on the path; zero: none
	messages   *messageList // the messages since, that of this entry included; nil: none
	time       time.Time
	bound      turns.TimeBound // of time
	completes  turns.ID        // the turn that this entry completes
	branch     turns.ID        // the session of that turn if another follows its parent already
	beginsTurn bool            // this entry is the first of its half
	copied     bool            // from the session that the file was forked from
	level      string          // thinking level in force
	recorded   string          // thinking level that the last turn on the path has
}

// messageList is a linked list of messages, newest first. Entries share it: a branch can
// begin at each of a thousand messages, and each entry holds only its own.
type messageList struct {
	before  *messageList // nil: none
	n       int          // messages, this one included
	message turns.Message
	record  string // of the entry
	program bool   // a program wrote the message in the name of the user
	node    *piNode
	inTurn  bool // a turn holds it
}

// markInTurn notes that a turn holds the messages.
func (h *messageList) markInTurn() {
	for ; h != nil && !h.inTurn; h = h.before {
		h.inTurn = true
	}
}

// all returns the messages and their records, oldest first, and the indexes of those that a
// program wrote; empty for nil.
func (h *messageList) all() (messages []turns.Message, records []string, programs []int) {
	if h == nil {
		return []turns.Message{}, nil, nil
	}
	messages, records = make([]turns.Message, h.n), make([]string, h.n)
	for ; h != nil; h = h.before {
		messages[h.n-1], records[h.n-1] = h.message, h.record
		if h.program {
			programs = append(programs, h.n-1)
		}
	}
	slices.Reverse(programs)
	return messages, records, programs
}

// Read reads a session of the pi coding agent (JSON lines, versions 1 to
// 3) as steps. An assistant message ends a turn, so that each line can be read as
// it comes: the steps of a shorter copy are a prefix of those of a longer one.
//
// In version 1 the entries are one line of work. From version 2 on each names
// its parent: the second child of a turn is a fork there. A compaction's
// firstKeptEntry becomes the turn that holds it. What pi shows its model in a form
// of its own (commands that the user ran, summaries of branches that were left,
// messages of extensions) is kept as user text.
//
// A parent may stand up to [maxWaitingEntries] entries behind its child, which waits for it.
//
// A fork is a file of its own, whose header names the parent's file. It begins with
// entries of the parent, under their ids and times. Those are turns of the parent, which
// [Options].Copied emits; what is later than the fork's header is a fork at the last of
// them. So the id of a turn does not name the file: it is derived from the entry's time,
// id and message.
//
// Held in memory are the entries' places (about 200 bytes each) and what was
// said since the last turn.
func Read(r io.Reader, opt transcript.Options) *transcript.Reader {
	p := &piReader{opt: opt, byID: make(map[string]*piNode), tips: make(map[turns.ID]turns.ID), seen: make(map[string][sha256.Size]byte), equal: make(map[[sha256.Size]byte]int)}
	p.ReadLines(r, opt, transcript.LineFormat{Name: "pi session", Object: p.entry, End: p.end, Begins: []string{`{"type":`}})
	p.Torn = p.tornEntry
	return p.Reader()
}

// entry reads one entry. The first is the session's header, which has index 0.
func (p *piReader) entry(line int, b []byte) error {
	e := new(piEntry)
	switch err := values.Decode(b, e); {
	case err != nil:
		p.Loss.Add(line, "skipped", "an entry that can't be read: "+err.Error(), "")
	case e.Type != "session" && p.session.IsZero():
		return fmt.Errorf("%w: it does not begin with a session", turns.ErrMalformed)
	case e.Type != "session":
		p.queueEntry(line, e, sha256.Sum256(b))
	case !p.session.IsZero():
		p.Loss.Add(line, "skipped", "a second session header", e.ID)
	default:
		p.header(e)
		p.last = &piNode{level: e.Level, recorded: e.Level}
		p.entries = append(p.entries, p.last)
	}
	return nil
}

// queueEntry reads an entry, or lets it wait for its parent.
func (p *piReader) queueEntry(line int, e *piEntry, sum [sha256.Size]byte) {
	p.entryCount++
	e.digest = hex.EncodeToString(sum[:8])
	if e.ID == "" {
		p.equal[sum]++
		e.occurrence = p.equal[sum]
	} else {
		switch before, seen := p.seen[e.ID]; {
		case seen && before == sum:
			p.Loss.Add(line, "skipped", "the entry stands in the file a second time", e.ID)
			return
		case seen:
			p.Loss.Add(line, "repaired", "another entry has the same id; what names it as its parent from here on means this one", e.ID)
			e.idReused = true
		}
		p.seen[e.ID] = sum
	}
	w := piWaiting{line, *e, p.newNode(e), p.last, p.entryCount + maxWaitingEntries}
	p.last = w.node
	if e.ID == "" || p.parentIsRead(e) {
		p.readEntry(&w)
	} else {
		p.waiting = append(p.waiting, w)
	}
	p.settle(false)
}

// newNode returns the node of an entry, without its place. What is older than the fork was
// copied, up to the first entry that is not.
func (p *piReader) newNode(e *piEntry) *piNode {
	n := &piNode{time: e.time()}
	switch {
	case n.time.IsZero(): // it was written after the entry before it
		n.time, n.bound = p.lastTime, turns.TimeNotBefore
	default:
		p.lastTime = n.time
	}
	n.copied = !p.parent.session.IsZero() && !p.ownBegan && n.time.Before(p.start)
	p.ownBegan = !n.copied
	return n
}

// tornEntry reads what is left of an entry whose line is torn: its place, so that what
// follows it stays on its branch.
func (p *piReader) tornEntry(line int, b []byte) {
	var e piEntry
	e.Type, e.ID, e.Parent, e.Time = transcript.TornMember(b, "type"), transcript.TornMember(b, "id"), transcript.TornMember(b, "parentId"), transcript.TornMember(b, "timestamp")
	if e.ID == "" || e.Type == "" || p.session.IsZero() || p.byID[e.ID] != nil || e.Parent == "" && !bytes.Contains(b, []byte(`"parentId":null`)) && !bytes.Contains(b, []byte(`"parentId": null`)) {
		return
	}
	e.Type = tornPiEntry
	p.queueEntry(line, &e, sha256.Sum256(b))
}

// tornPiEntry is the type of an entry of which only the place is known.
const tornPiEntry = "torn"

// parentIsRead reports whether the parent that e names was read.
func (p *piReader) parentIsRead(e *piEntry) bool { return e.Parent == "" || p.byID[e.Parent] != nil }

// settle reads the entries that need not wait any more: their parent was read, or they
// have waited long enough, as all have at the end.
func (p *piReader) settle(end bool) {
	for {
		i := slices.IndexFunc(p.waiting, func(w piWaiting) bool { return p.parentIsRead(&w.entry) })
		if i < 0 && len(p.waiting) > 0 && (end || p.waiting[0].until <= p.entryCount) {
			i = 0
		}
		if i < 0 {
			return
		}
		w := p.waiting[i]
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.readEntry(&w)
	}
}

// readEntry reads an entry whose place is known.
func (p *piReader) readEntry(w *piWaiting) {
	line, n, e := w.line, w.node, &w.entry
	p.place(w)
	p.entries = append(p.entries, n)
	if !n.copied && !p.opened {
		p.emitOwn(n)
	}
	switch e.Type {
	case "message":
		p.message(line, n, e)
	case "custom_message":
		p.addProgramMessage(n, e.record(), turns.Message{Role: turns.User, Parts: piParts(e.Content, &p.Loss, line)})
	case "branch_summary":
		p.addProgramMessage(n, e.record(), turns.TextMessage(turns.User, "[summary of a branch that was left]\n"+e.Summary))
		p.Loss.Count("repaired", "summaries of branches that were left are kept as user text")
		p.uncounted(line, n, e.Usage, "usage of the summary of a branch that was left")
	case "compaction":
		p.compaction(line, n, e)
		if len(e.System) > 0 && e.System.Kind() != 'n' {
			p.Loss.Add(line, "skipped", "the system text that the model had after a compaction", e.ID)
		}
	case "thinking_level_change":
		n.level = e.Level
	case "session_info":
		p.Names.Set(p.session, e.Name, true)
	case "usage":
		p.uncounted(line, n, e.Usage, "usage of a call outside the conversation")
	case "context_edit":
		p.Loss.Add(line, "skipped", "an edit of what the model sees; the entry "+strconv.Quote(values.Clipped(e.Target, 80))+" is stored as it was", e.ID)
	case "context_transform":
		p.Loss.Add(line, "skipped", "a change of what the model sees, which an extension made", e.ID)
	case "ephemeral":
		p.Loss.Add(line, "skipped", "messages that the model saw in one call only", e.ID)
	case "model_change", tornPiEntry: // each response names its model
	default:
		p.Loss.Count("skipped", "entries of type "+strconv.Quote(e.Type))
	}
}

// uncounted reports usage that no turn can hold, unless the entry is the parent's.
func (p *piReader) uncounted(line int, n *piNode, u *piUsage, what string) {
	if used := u.counts(); used != nil && !n.copied {
		p.Loss.AddUsage(line, what, used)
	}
}

// header reads the session's header. A session that is no fork is emitted at once.
func (p *piReader) header(e *piEntry) {
	p.source, p.start = e.ID, e.time()
	p.lastTime = p.start
	p.session = piSession(p.source, p.start)
	from := e.BranchedFrom
	if from == "" {
		from = e.ParentSession
	}
	p.meta = piMeta{Source: "pi", Session: p.source, Cwd: e.Cwd, BranchedFrom: from, Level: e.Level}
	p.open = transcript.Open{ID: p.session, Time: p.start, Model: e.Model, Exported: transcript.ExportedFrom(e.ID, e.Mark), Meta: p.meta.raw()}
	if from == "" {
		p.emitOpen()
		return
	}
	if source, start, ok := piFileOf(from); ok && source != p.source {
		p.parent = piParent{source: source, session: piSession(source, start), start: start}
		return
	}
	p.Loss.Add(1, "repaired", "branched from another session's file, whose name does not say which session it is; the history copied from there is this session's own", from)
	p.emitOpen()
}

func (p *piReader) emitOpen() {
	o := p.open
	p.opened = true
	p.Step(transcript.Step{Open: &o})
}

// piSession returns the id of the session that pi calls source.
func piSession(source string, start time.Time) turns.ID {
	if at := uuidTime(source); !at.IsZero() {
		start = at
	}
	return turns.DeriveID(start, "pi", source)
}

// uuidTime returns the time in a UUID of version 7, the zero Time for any other text.
func uuidTime(s string) time.Time {
	u, err := uuid.Parse(s)
	if err != nil || u.Version() != 7 {
		return time.Time{}
	}
	return time.Unix(u.Time().UnixTime()).UTC().Truncate(time.Millisecond)
}

// piFileOf returns the id and the beginning of the session that a file of pi holds, by the
// file's name: 2026-04-11T14-53-07-660Z_ID.jsonl. The name of a session whose id holds its
// time may be the id alone.
func piFileOf(name string) (source string, start time.Time, ok bool) {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	for _, ext := range []string{".gz", ".zst", ".jsonl"} {
		name = strings.TrimSuffix(name, ext)
	}
	if at, id, found := strings.Cut(name, "_"); found && id != "" {
		const layout = "2006-01-02T15-04-05-000Z"
		if t, err := time.Parse("2006-01-02T15-04-05.000Z", at[:min(len(at), len(layout)-5)]+strings.Replace(at[min(len(at), len(layout)-5):], "-", ".", 1)); err == nil {
			return id, t, true
		}
		name = id
	}
	return name, uuidTime(name), !uuidTime(name).IsZero()
}

// place finds an entry's parent: the one that it names, else the entry before.
func (p *piReader) place(w *piWaiting) {
	n, e := w.node, &w.entry
	if n.parent = w.before; n.parent != p.entries[0] && n.parent.parent == nil { // it waits itself
		n.parent = p.entries[len(p.entries)-1]
	}
	if e.ID != "" {
		switch up, ok := p.byID[e.Parent]; {
		case ok:
			n.parent = up
		case e.Parent == "":
			n.parent = p.entries[0]
		default:
			p.Loss.Add(w.line, "repaired", "its parent is not in the file; it follows the entry before it", e.ID)
		}
		p.byID[e.ID] = n
	}
	n.parent.children++
	n.lastTurn, n.messages = n.parent.lastTurn, n.parent.messages
	n.level, n.recorded = n.parent.level, n.parent.recorded
}

// addMessage adds a message to those since the last turn.
func (p *piReader) addMessage(n *piNode, record string, m turns.Message) {
	h := &messageList{before: n.messages, n: 1, message: m, record: record}
	p.addToList(n, h)
}

// addProgramMessage adds a message that a program wrote in the name of the user.
func (p *piReader) addProgramMessage(n *piNode, record string, m turns.Message) {
	p.addToList(n, &messageList{before: n.messages, n: 1, message: m, record: record, program: true})
}

func (p *piReader) addToList(n *piNode, h *messageList) {
	h.node = n
	if n.beginsTurn = n.messages == nil; !n.beginsTurn {
		h.n += n.messages.n
	}
	n.messages = h
}

func (p *piReader) message(line int, n *piNode, e *piEntry) {
	var m piMessage
	if err := values.Decode(e.Message, &m); err != nil {
		p.Loss.Add(line, "skipped", "a message that can't be read: "+err.Error(), e.ID)
		return
	}
	record := e.record()
	switch m.Role {
	case "assistant":
		r := p.response(line, &m)
		p.turn(n, record, &r, &m, e.Message)
	case "user":
		p.addMessage(n, record, turns.Message{Role: turns.User, Parts: piParts(m.Content, &p.Loss, line)})
	case "toolResult":
		p.uncounted(line, n, m.Usage, "usage of calls that a tool made")
		if r := p.result(line, &m); r.Role == turns.User {
			p.addProgramMessage(n, record, r)
		} else {
			p.addMessage(n, record, r)
		}
	case "bashExecution":
		if m.Excluded {
			p.Loss.Count("skipped", "commands that the user ran, which the model does not see")
			return
		}
		p.addProgramMessage(n, record, turns.TextMessage(turns.User, m.bash()))
		p.Loss.Count("repaired", "commands that the user ran are kept as user text")
	case "system":
		parts := piParts(m.Content, &p.Loss, line)
		if len(parts) == 0 {
			p.Loss.Add(line, "skipped", "a system message in a form that can't be read", e.ID)
			return
		}
		p.addMessage(n, record, turns.Message{Role: turns.System, Parts: parts})
	default:
		parts := piParts(m.Content, &p.Loss, line)
		if len(parts) == 0 {
			p.Loss.Add(line, "skipped", "a message of role "+strconv.Quote(m.Role), e.ID)
			return
		}
		p.addProgramMessage(n, record, turns.Message{Role: turns.User, Parts: parts})
		p.Loss.Count("repaired", "messages of role "+strconv.Quote(m.Role)+" are kept as user text")
	}
}

// turn emits the turn that a response, or the end of a branch, completes. content is the
// JSON of the response's message.
func (p *piReader) turn(n *piNode, record string, response *turns.Message, m *piMessage, content []byte) {
	key := record
	if response == nil {
		key += " pending"
	} else {
		sum := sha256.Sum256(content)
		key += " " + hex.EncodeToString(sum[:])
	}
	at := n.time
	if n.bound != "" { // the time of another entry
		at = time.Time{}
	}
	n.branch = p.branchID(n, at, key)
	id := turns.DeriveID(at, "pi turn", key)
	session := p.sessionAfter(n, id)
	messages, records, programs := n.messages.all()
	a := &transcript.Append{Session: session, ID: id, Parent: n.lastTurn.Turn, Time: n.time, Messages: messages, Response: response, Branch: n.branch}
	meta := piMeta{Messages: records}
	if n.level != n.recorded {
		meta.Level, n.recorded = n.level, n.level
	}
	if m != nil {
		a.Model, a.Usage = m.Model, m.Usage.counts()
		meta.Record, meta.Error, meta.Provider, meta.Response = record, m.Error, m.Provider, m.ResponseID
		if m.Usage != nil && !isUnknownPiCost(m.Usage.Cost) {
			meta.Cost = turns.Raw(m.Usage.Cost)
		}
	}
	a.Meta = values.WithProgramMessages(values.WithTimeBound(meta.raw(), n.bound), programs)
	p.emit(n, transcript.Step{Append: a})
	n.messages.markInTurn()
	n.completes = a.ID
	n.lastTurn, n.messages = turns.Ref{Session: session, Turn: a.ID}, nil
	p.tips[session] = a.ID
}

// emit emits a step of an entry, unless the ledger has it from the session that the entry
// was copied from.
func (p *piReader) emit(n *piNode, s transcript.Step) {
	if !n.copied || p.opt.Copied {
		p.Step(s)
	}
}

// branchID returns the id of the session that an entry begins if another one follows its
// last turn.
func (p *piReader) branchID(n *piNode, at time.Time, key string) turns.ID {
	source := p.source
	if n.copied {
		source = p.parent.source
	}
	return turns.DeriveID(at, "pi branch", source, key)
}

// sessionAfter returns the session of the turn after n's last turn: the same session if
// nothing follows that turn yet, else a fork, and a new session if the branch begins
// before the first turn. It emits that session first. first is the turn, zero for a compaction.
func (p *piReader) sessionAfter(n *piNode, first turns.ID) turns.ID {
	from, meta := n.lastTurn.Session, piMeta{Source: "pi", Session: p.source}
	if n.copied {
		meta.Session = p.parent.source
		if p.opt.Copied && !p.parent.opened { // its own file says the rest
			m := piMeta{Source: "pi", Session: p.parent.source, Cwd: p.meta.Cwd, StandIn: true}
			p.Step(transcript.Step{Open: &transcript.Open{ID: p.parent.session, Time: p.parent.start, Meta: m.raw()}})
			p.parent.opened = true
			p.Loss.Add(1, "repaired", "the file of the session that it was forked from was not read; what was copied from there is stored as that session's", p.parent.source)
		}
	}
	switch {
	case from.IsZero() && n.copied:
		from = p.parent.session
	case from.IsZero(), !n.copied && p.tips[p.session] == n.lastTurn.Turn: // the fork's first turn follows one of its parent
		from = p.session
	}
	if tip, own := p.tips[from]; tip == n.lastTurn.Turn && (own || n.lastTurn.IsZero()) {
		return from
	}
	id := n.branch
	if n.lastTurn.IsZero() {
		p.emit(n, transcript.Step{Open: &transcript.Open{ID: id, Time: n.time, Meta: meta.raw()}})
	} else {
		f := &transcript.Fork{ID: id, At: n.lastTurn, Time: n.time, Meta: meta.raw(), First: first}
		if !n.copied {
			f.Else = p.otherPlaces(n)
		}
		p.emit(n, transcript.Step{Fork: f})
	}
	return id
}

// emitOwn emits the session of the file if it was forked: as a fork at the last turn that
// was copied.
func (p *piReader) emitOwn(n *piNode) {
	if n.lastTurn.IsZero() { // nothing was copied
		p.emitOpen()
		return
	}
	p.opened = true
	p.tips[p.session] = n.lastTurn.Turn
	p.Step(transcript.Step{Fork: &transcript.Fork{ID: p.session, At: n.lastTurn, Time: p.start, Meta: p.open.Meta, Else: p.otherPlaces(n)}})
}

// otherPlaces returns where the ledger may have n's last turn if it is a copied one. Only
// the parent's own file says on which of its branches the turn is. A branch has the id that
// its first turn gives it.
func (p *piReader) otherPlaces(n *piNode) (out []turns.Ref) {
	turn := n.lastTurn.Turn
	for x := n.parent; x != nil; x = x.parent {
		if x.copied && !x.completes.IsZero() && x.branch != n.lastTurn.Session {
			out = append(out, turns.Ref{Session: x.branch, Turn: turn})
		}
	}
	if len(out) > 0 && n.lastTurn.Session != p.parent.session {
		out = append(out, turns.Ref{Session: p.parent.session, Turn: turn})
	}
	return out
}

func (p *piReader) compaction(line int, n *piNode, e *piEntry) {
	if n.lastTurn.IsZero() {
		p.Loss.Add(line, "skipped", "a compaction before the first turn", e.ID)
		p.uncounted(line, n, e.Usage, "usage of a compaction before the first turn")
		return
	}
	var first *piNode
	switch {
	case e.FirstKeptID != "":
		first = p.byID[e.FirstKeptID]
	case e.FirstKept != nil && *e.FirstKept > 0 && *e.FirstKept < len(p.entries):
		first = p.entries[*e.FirstKept]
	}
	at := n.time
	if n.bound != "" {
		at = time.Time{}
	}
	n.branch = p.branchID(n, at, e.record())
	session := p.sessionAfter(n, turns.ID{})
	n.lastTurn.Session, p.tips[session] = session, n.lastTurn.Turn // what follows goes on there
	k := &transcript.Compaction{Session: session, ID: turns.DeriveID(at, "pi compaction", e.record(), n.lastTurn.Turn.String()), Parent: n.lastTurn.Turn, Time: n.time,
		Trigger: "threshold", Summary: e.Summary, TokensBefore: e.TokensBefore, Meta: values.WithTimeBound(piMeta{Record: e.record(), Details: turns.Raw(e.Details)}.raw(), n.bound)}
	k.Usage = e.Usage.counts()
	switch {
	case first == nil:
		p.Loss.Add(line, "repaired", "the first entry that the compaction keeps is not in the file; it keeps nothing", e.ID)
	default:
		var whole bool
		if k.FirstKept, whole = keptFrom(n, first); !whole {
			p.Loss.Add(line, "repaired", "the compaction keeps a part of a turn; the ledger keeps the whole turn", e.ID)
		}
	}
	p.emit(n, transcript.Step{Compaction: k})
}

// keptFrom returns the turn on the path to n that holds the entry first. If first belongs
// to no turn, such as a change of the model, it is the next turn; zero if that turn is
// not read yet. whole is false if first is not the beginning of the turn.
func keptFrom(n, first *piNode) (id turns.ID, whole bool) {
	whole = true
	for x := n; x != nil; x = x.parent {
		if !x.completes.IsZero() {
			id = x.completes
		}
		if x == first {
			return id, first.beginsTurn || first.messages == nil && first.completes.IsZero()
		}
	}
	return turns.ID{}, true // not on this path: what the source kept is not known
}

// end reads the end of the file. With Final it emits the messages of each branch that have
// no response.
func (p *piReader) end(int) {
	pending := func(n *piNode) bool { return n.children == 0 && n.messages != nil && !n.messages.inTurn && !n.copied }
	if !p.opt.Final {
		held := 0
		for _, n := range p.entries {
			if pending(n) {
				held++
			}
		}
		p.Loss.Unfinished(held)
		p.Loss.AddEnd(len(p.waiting), "entries whose parent is not in the file yet; --final takes them")
		return
	}
	p.settle(true)
	for _, n := range p.entries {
		if pending(n) {
			at := n.messages.node
			if at.copied { // the parent has the messages, and this session's turn begins with them
				at = n
			}
			p.turn(at, n.messages.record, nil, nil, nil)
		}
	}
	if !p.opened && p.last != nil {
		p.emitOwn(p.last)
	}
}

// Sniff reports whether head, the first bytes of a file, looks like a pi
// session: its first line is an object of type session with an id and a cwd.
func Sniff(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	var e struct {
		Type string         `json:"type"`
		ID   string         `json:"id"`
		Cwd  jsontext.Value `json:"cwd"`
	}
	return values.Decode(line, &e) == nil && e.Type == "session" && e.ID != "" && e.Cwd != nil
}

// Format is the format of pi's sessions.
func Format() transcript.Format {
	return transcript.Format{
		Name: "pi", Version: 1, Sniff: Sniff, Open: Read, Lines: Read,
		Write: func(s transcript.WrittenSession) transcript.Writer {
			return &piWriter{s: s, now: s.Time, used: make(map[string]bool), first: make(map[turns.ID]string)}
		},
	}
}
