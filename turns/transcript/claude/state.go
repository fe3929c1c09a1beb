package claude

import (
	"crypto/sha256"
	"slices"
	"time"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"nexus/turns/transcript/claude/record"
)

// toolCall is a tool call by its id.
type toolCall struct {
	turn       *turn
	order      int
	answeredIn *turn // the turn that holds its result; nil: none yet
}

// tree is the fold over the records of a transcript.
type tree struct {
	transcript.Source
	opt     transcript.Options
	index   map[indexKey]*anchor
	content map[indexKey]indexKey // of lines with content: a hash of it, to tell copies apart
	mains   map[string]*branch    // by sessionId

	named     map[string]titlePair // by sessionId
	summaries []summaryTitle       // in the file's order

	sides        map[indexKey]*branch // sub-agents by sessionId and agent
	current      map[string]*branch   // by sessionId: its branch that was last written to, no sidechain
	branches     map[string][]*branch // by sessionId: all but those of sub-agents, in the order in which they began
	lastCopy     *record.Line         // the last line that was copied from another session; nil: none was
	origins      map[string]bool      // by sessionId: whether lines are copied from it, or it is the file's own
	copiedInto   string               // the session of the file that the last copies came into
	lastTime     time.Time            // of the newest line so far
	kept         map[indexKey]*turn   // by line that a compaction kept, and whose children stay before it: the compaction
	responses    map[indexKey]*turn   // by branch and message id: the turn that holds the response
	calls        map[indexKey]*toolCall
	open         []*turn // not yet emitted, oldest first; emitted ones are dropped from time to time
	callCount    int
	lineCount    int // lines with content so far
	waiting      []waitingLine
	waitingBytes int // bytes of waiting

	tornNamed   map[indexKey]tornLine // by uuid
	tornUnnamed []tornLine
	lost        map[indexKey]*anchor // by uuid of a parent that is not in the file: where its children were placed
}

func newTree(opt transcript.Options) *tree {
	return &tree{
		opt: opt, index: make(map[indexKey]*anchor), content: make(map[indexKey]indexKey), mains: make(map[string]*branch),
		named: make(map[string]titlePair), origins: make(map[string]bool),
		sides: make(map[indexKey]*branch), current: make(map[string]*branch), branches: make(map[string][]*branch), responses: make(map[indexKey]*turn),
		calls: make(map[indexKey]*toolCall), kept: make(map[indexKey]*turn),
	}
}

// waitingLine is a line that came before its parent.
type waitingLine struct {
	rec *record.Line
	seq int
	max int // it stops waiting when as many lines were read
}

// tornLine is what is known of a line that is torn: where it stood in the tree.
type tornLine struct {
	line            int
	parent, session string
	root            bool // it states that it has no parent
	claimed         bool // a line hangs on it: its uuid is that of the line's parent
}

// turnPhase is where in a turn a line is.
type turnPhase uint8

const (
	beforeTurns   turnPhase = iota // before the branch's first turn
	inMessages                     // in the messages half
	afterMessages                  // in the response, or a compaction
)

// anchor is the place of a line, which its children continue. A transparent line
// has the place of its parent.
type anchor struct {
	b            *branch
	t            *turn
	phase        turnPhase
	messageCount int  // in the messages half: how many messages stand up to this line
	prompted     bool // a prompt follows here: a second one is a rewind
}

// branch is the path of one session of the ledger. It has no branches of its own.
type branch struct {
	id              turns.ID
	source          string // sessionId
	agent           string // of a sidechain
	side            bool
	opened          bool
	time            time.Time
	forkedAt        *turn // the turn that it was forked from
	spawnedBy       turns.Ref
	meta            stepMeta
	recordedContext workContext // as the meta of the last emitted turn has it
	tail            *turn
	copied          bool // it is of the session that this file's was forked from
	firstLine       int  // counted lines: the one that it began with
	lastLine        int  // and the last that came to it
}

// turn is a turn or compaction. Its body is nil once it was emitted.
type turn struct {
	b            *branch
	id           turns.ID
	first        indexKey // the line that it begins with
	branch       turns.ID // of a fork that begins with it
	parent       *turn
	continuation *turn // what continues it on the same branch
	depth        int
	emitted      bool
	responded    bool
	compaction   bool
	copied       bool // of the session that the file's was forked from, which has it too
	body         *body
}

// open reports whether more messages may join t.
func (t *turn) open() bool { return t != nil && !t.emitted && !t.responded && !t.compaction }

// isLeft reports whether t is left to the session that it was copied from, which may have
// a response to it: it is a prompt without one, at the end of what was copied.
func (t *turn) isLeft() bool { return t.copied && t.open() }

// complete reports whether the response of t can't get another block: the provider
// stopped, and not for the calls, of which more may come on lines of their own. Each
// line of a message has its stop reason, so a line of reasoning does not end it.
// Versions that write no stop reason leave open which line is the last.
func (t *turn) complete() bool {
	if t.emitted || !t.responded {
		return t.emitted
	}
	r := t.body.response
	return r.FinishReason != "" && r.FinishReason != "tool_use" && len(r.Parts) > 0 && r.Parts[len(r.Parts)-1].Type != turns.Reasoning
}

// last returns the turn that the next turn of b continues: the tail, or the fork point
// of an empty branch.
func (b *branch) last() *turn {
	if b.tail != nil {
		return b.tail
	}
	return b.forkedAt
}

// isOnPath reports whether t is an ancestor of leaf, or leaf itself. It walks
// forks, not turns: a branch is a line.
func isOnPath(leaf, t *turn) bool {
	for leaf != nil && leaf.b != t.b {
		leaf = leaf.b.forkedAt
	}
	return leaf != nil && t.depth <= leaf.depth
}

// tailAnchor returns the place after everything on b.
func (k *tree) tailAnchor(b *branch) *anchor {
	t := b.tail
	switch {
	case t == nil && b.forkedAt == nil:
		return &anchor{b: b}
	case t.open():
		return &anchor{b: b, t: t, phase: inMessages, messageCount: len(t.body.messages)}
	}
	return &anchor{b: b, t: b.last(), phase: afterMessages}
}

// hasOrphanResult reports whether a user line holds a result whose call was not read.
func (k *tree) hasOrphanResult(rec *record.Line) bool {
	return slices.ContainsFunc(rec.Blocks, func(block turns.Raw) bool {
		o := values.Members(block)
		id := o.Text("tool_use_id")
		return o.Text("type") == "tool_result" && id != "" && k.calls[keyOf(id)] == nil
	})
}

// titlePair are a session's titles from a model and from a person.
type titlePair struct{ ai, person turns.Raw }

// summaryTitle is a summary of a session up to the line leaf.
type summaryTitle struct {
	leaf indexKey
	text turns.Raw
}

// indexKey is an index key: the start of a SHA-256 of a foreign id.
type indexKey [16]byte

func keyOf(parts ...string) (k indexKey) {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	copy(k[:], h.Sum(nil))
	return k
}

// contentKey tells copies of a line with a uuid from other lines with it.
func contentKey(rec *record.Line) indexKey {
	return keyOf(rec.Type, string(rec.Message.Content), string(rec.Compact))
}
