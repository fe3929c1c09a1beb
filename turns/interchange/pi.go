package interchange

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// piReader is the fold over the entries of a session.
type piReader struct {
	Reader
	opt Options

	source        string // the session's id
	session       turns.ID
	start         time.Time
	cwd           string
	thinkingLevel string    // thinking level in force
	recordedLevel string    // thinking level that the last turn has
	entries       []*piNode // in the order in which they were placed
	last          *piNode   // of the entry read last
	byID          map[string]*piNode
	tips          map[turns.ID]turns.ID // last turn of each session
	calls         callIDs
	seen          map[string][sha256.Size]byte // entries read, by id
	waiting       []piWaiting                  // for their parent, in the file's order
	entryCount    int                          // entries read
}

// piLate is how many entries an entry waits for its parent.
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
	completes  turns.ID // the turn that this entry completes
	beginsTurn bool     // this entry is the first of its half
}

// messageList is a linked list of messages, newest first. Entries share it: a branch can
// begin at each of a thousand messages, and each entry holds only its own.
type messageList struct {
	before  *messageList // nil: none
	n       int          // messages, this one included
	message turns.Message
	record  string // of the entry
}

// all returns the messages and their records, oldest first; empty for nil.
func (h *messageList) all() (messages []turns.Message, records []string) {
	if h == nil {
		return []turns.Message{}, nil
	}
	messages, records = make([]turns.Message, h.n), make([]string, h.n)
	for ; h != nil; h = h.before {
		messages[h.n-1], records[h.n-1] = h.message, h.record
	}
	return messages, records
}

// Pi reads a session of the pi coding agent (JSON lines, versions 1 to
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
// Held in memory are the entries' places (about 200 bytes each) and what was
// said since the last turn.
func Pi(r io.Reader, opt Options) *Reader {
	p := &piReader{opt: opt, byID: make(map[string]*piNode), tips: make(map[turns.ID]turns.ID), seen: make(map[string][sha256.Size]byte)}
	p.readLines(r, opt, lineFormat{"pi session", p.entry, p.end})
	return &p.Reader
}

// entry reads one entry. The first is the session's header, which has index 0.
func (p *piReader) entry(line int, b []byte) error {
	e := new(piEntry)
	switch err := decodeLoose(b, e); {
	case err != nil:
		p.loss.add(line, "skipped", "an entry that can't be read: "+err.Error(), "")
	case e.Type != "session" && p.session.IsZero():
		return fmt.Errorf("%w: it does not begin with a session", turns.ErrMalformed)
	case e.Type != "session":
		p.queueEntry(line, e, sha256.Sum256(b))
	case !p.session.IsZero():
		p.loss.add(line, "skipped", "a second session header", e.ID)
	default:
		p.open(e)
		p.last = &piNode{}
		p.entries = append(p.entries, p.last)
	}
	return nil
}

// queueEntry reads an entry, or lets it wait for its parent.
func (p *piReader) queueEntry(line int, e *piEntry, sum [sha256.Size]byte) {
	p.entryCount++
	if e.ID != "" {
		switch before, seen := p.seen[e.ID]; {
		case seen && before == sum:
			p.loss.add(line, "skipped", "the entry stands in the file a second time", e.ID)
			return
		case seen:
			p.loss.add(line, "repaired", "another entry has the same id; what names it as its parent from here on means this one", e.ID)
			e.idReused = true
		}
		p.seen[e.ID] = sum
	}
	w := piWaiting{line, *e, &piNode{time: parseTime(turns.RawText(e.Time))}, p.last, p.entryCount + maxWaitingEntries}
	p.last = w.node
	if e.ID == "" || p.parentIsRead(e) {
		p.readEntry(&w)
	} else {
		p.waiting = append(p.waiting, w)
	}
	p.settle(false)
}

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
	switch e.Type {
	case "message":
		p.message(line, n, e)
	case "custom_message":
		p.addMessage(n, e.record(line), turns.Message{Role: turns.User, Parts: piParts(e.Content, &p.loss, line)})
	case "branch_summary":
		p.addMessage(n, e.record(line), turns.TextMessage(turns.User, "[summary of a branch that was left]\n"+e.Summary))
		p.loss.count("repaired", "summaries of branches that were left are kept as user text")
	case "compaction":
		p.compaction(line, n, e)
	case "thinking_level_change":
		p.thinkingLevel = e.Level
	case "session_info":
		p.names.set(p.session, e.Name, true)
	case "model_change": // each response names its model
	default:
		p.loss.count("skipped", "entries of type "+strconv.Quote(e.Type))
	}
}

func (p *piReader) open(e *piEntry) {
	p.source, p.start, p.cwd, p.thinkingLevel = e.ID, parseTime(turns.RawText(e.Time)), e.Cwd, e.Level
	p.session = turns.DeriveID(p.start, "pi", p.source)
	from := e.BranchedFrom
	if from == "" {
		from = e.ParentSession
	}
	if from != "" {
		p.loss.add(1, "repaired", "branched from another session's file; the history copied from there is this session's own", e.ID)
	}
	p.step(Step{Open: &Open{ID: p.session, Time: p.start, Model: e.Model, Exported: exportedFrom(e.ID, e.Mark), Meta: piMeta{Source: "pi", Session: p.source, Cwd: p.cwd, BranchedFrom: from, Level: p.thinkingLevel}.raw()}})
	p.recordedLevel = p.thinkingLevel
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
			p.loss.add(w.line, "repaired", "its parent is not in the file; it follows the entry before it", e.ID)
		}
		p.byID[e.ID] = n
	}
	n.parent.children++
	n.lastTurn, n.messages = n.parent.lastTurn, n.parent.messages
}

// addMessage adds a message to those since the last turn.
func (p *piReader) addMessage(n *piNode, record string, m turns.Message) {
	h := &messageList{before: n.messages, n: 1, message: m, record: record}
	if n.beginsTurn = n.messages == nil; !n.beginsTurn {
		h.n += n.messages.n
	}
	n.messages = h
}

func (p *piReader) message(line int, n *piNode, e *piEntry) {
	var m piMessage
	if err := decodeLoose(e.Message, &m); err != nil {
		p.loss.add(line, "skipped", "a message that can't be read: "+err.Error(), e.ID)
		return
	}
	record := e.record(line)
	switch m.Role {
	case "assistant":
		r := p.response(line, &m)
		p.turn(n, record, &r, &m)
	case "user":
		p.addMessage(n, record, turns.Message{Role: turns.User, Parts: piParts(m.Content, &p.loss, line)})
	case "toolResult":
		p.addMessage(n, record, p.result(line, &m))
	case "bashExecution":
		p.addMessage(n, record, turns.TextMessage(turns.User, m.bash()))
		p.loss.count("repaired", "commands that the user ran are kept as user text")
	default:
		parts := piParts(m.Content, &p.loss, line)
		if len(parts) == 0 {
			p.loss.add(line, "skipped", "a message of role "+strconv.Quote(m.Role), e.ID)
			return
		}
		p.addMessage(n, record, turns.Message{Role: turns.User, Parts: parts})
		p.loss.count("repaired", "messages of role "+strconv.Quote(m.Role)+" are kept as user text")
	}
}

// turn emits the turn that a response, or the end of a branch, completes.
func (p *piReader) turn(n *piNode, record string, response *turns.Message, m *piMessage) {
	session := p.sessionAfter(n)
	key := record
	if response == nil {
		key += " pending"
	}
	messages, records := n.messages.all()
	a := &Append{Session: session, ID: turns.DeriveID(n.time, "pi", p.source, key), Parent: n.lastTurn.Turn, Time: n.time, Messages: messages, Response: response}
	meta := piMeta{Messages: records}
	if p.thinkingLevel != p.recordedLevel {
		meta.Level, p.recordedLevel = p.thinkingLevel, p.thinkingLevel
	}
	if m != nil {
		a.Model, a.Usage = m.Model, m.usage()
		meta.Record, meta.Error, meta.Provider = record, m.Error, m.Provider
		if m.Usage != nil && !isUnknownPiCost(m.Usage.Cost) {
			meta.Cost = turns.Raw(m.Usage.Cost)
		}
	}
	a.Meta = meta.raw()
	p.step(Step{Append: a})
	n.completes = a.ID
	n.lastTurn, n.messages = turns.Ref{Session: session, Turn: a.ID}, nil
	p.tips[session] = a.ID
}

// sessionAfter returns the session of the turn after n's last turn: the same session if
// nothing follows that turn yet, else a fork, and a new session if the branch begins
// before the first turn.
func (p *piReader) sessionAfter(n *piNode) turns.ID {
	from := n.lastTurn.Session
	if from.IsZero() {
		from = p.session
	}
	if p.tips[from] == n.lastTurn.Turn {
		return from
	}
	id := turns.DeriveID(n.time, "pi branch", p.source, strconv.Itoa(len(p.entries)))
	meta := piMeta{Source: "pi", Session: p.source}.raw()
	if n.lastTurn.IsZero() {
		p.step(Step{Open: &Open{ID: id, Time: n.time, Meta: meta}})
	} else {
		p.step(Step{Fork: &Fork{ID: id, At: n.lastTurn, Time: n.time, Meta: meta}})
	}
	return id
}

func (p *piReader) compaction(line int, n *piNode, e *piEntry) {
	if n.lastTurn.IsZero() {
		p.loss.add(line, "skipped", "a compaction before the first turn", e.ID)
		return
	}
	var first *piNode
	switch {
	case e.FirstKeptID != "":
		first = p.byID[e.FirstKeptID]
	case e.FirstKept != nil && *e.FirstKept > 0 && *e.FirstKept < len(p.entries):
		first = p.entries[*e.FirstKept]
	}
	session := p.sessionAfter(n)
	n.lastTurn.Session, p.tips[session] = session, n.lastTurn.Turn // what follows goes on there
	k := &Compaction{Session: session, ID: turns.DeriveID(n.time, "pi", p.source, e.record(line)), Parent: n.lastTurn.Turn, Time: n.time,
		Trigger: "threshold", Summary: e.Summary, TokensBefore: e.TokensBefore, Meta: piMeta{Record: e.record(line), Details: turns.Raw(e.Details)}.raw()}
	switch {
	case first == nil:
		p.loss.add(line, "repaired", "the first entry that the compaction keeps is not in the file; it keeps nothing", e.ID)
	default:
		var whole bool
		if k.FirstKept, whole = keptFrom(n, first); !whole {
			p.loss.add(line, "repaired", "the compaction keeps a part of a turn; the ledger keeps the whole turn", e.ID)
		}
	}
	p.step(Step{Compaction: k})
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
	pending := func(n *piNode) bool { return n.children == 0 && n.messages != nil && n.completes.IsZero() }
	if !p.opt.Final {
		held := 0
		for _, n := range p.entries {
			if pending(n) {
				held++
			}
		}
		p.loss.unfinished(held)
		p.loss.addEnd(len(p.waiting), "entries whose parent is not in the file yet; --final takes them")
		return
	}
	p.settle(true)
	for _, n := range p.entries {
		if pending(n) {
			p.turn(n, n.messages.record, nil, nil)
		}
	}
}

// SniffPi reports whether head, the first bytes of a file, looks like a pi
// session: its first line is an object of type session with an id and a cwd.
func SniffPi(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	var e struct {
		Type string         `json:"type"`
		ID   string         `json:"id"`
		Cwd  jsontext.Value `json:"cwd"`
	}
	return decodeLoose(line, &e) == nil && e.Type == "session" && e.ID != "" && e.Cwd != nil
}
