package interchange

import (
	"slices"
	"time"

	"nexus/turns"
)

// ccPhase is where in a turn a line stands.
type ccPhase uint8

const (
	ccBefore   ccPhase = iota // before the branch's first turn
	ccMessages                // in the messages half
	ccAfter                   // in the response, or a compaction
)

// ccAnchor is what a line's uuid stands for: the place that a child continues.
// Lines that are looked through share their parent's.
type ccAnchor struct {
	b        *ccBranch
	t        *ccTurn
	phase    ccPhase
	pos      int  // in the messages half: how many messages stand up to this line
	prompted bool // a prompt hangs here: a second one is a rewind
}

// ccBranch is one session of the ledger.
type ccBranch struct {
	id      turns.ID
	source  string // sessionId
	agent   string // of a sidechain
	side    bool
	opened  bool
	time    time.Time
	fork    *ccTurn // the turn that it was forked from
	spawned turns.Ref
	meta    ccMeta
	ctx     ccContext // as last said in a turn's meta
	tail    *ccTurn
}

// ccTurn is a turn or compaction. Its body is gone once it was given.
type ccTurn struct {
	b          *ccBranch
	id         turns.ID
	parent     *ccTurn
	cont       *ccTurn // what continues it on the same branch
	depth      int
	emitted    bool
	responded  bool
	compaction bool
	body       *ccBody
}

// open reports whether more messages may join t.
func (t *ccTurn) open() bool { return t != nil && !t.emitted && !t.responded && !t.compaction }

// ccBody is the content of a turn that is not finished.
type ccBody struct {
	time    time.Time
	model   string
	msgs    []turns.Message
	order   []int // of each message: the order of the call it answers, or -1
	results bool
	texts   bool
	resp    *turns.Message
	usage   *turns.Usage
	meta    ccMeta
	ctx     ccContext
	step    Compaction // of a compaction: what is known so far
	summed  bool       // its summary line was read
}

// ccCall is a tool call by its id.
type ccCall struct {
	turn   *ccTurn
	order  int
	answer *ccTurn // the turn that holds its result; nil: none yet
}

// ccTree is the fold over the records of a transcript.
type ccTree struct {
	Reader
	opt     Options
	index   map[ccKey]*ccAnchor
	content map[ccKey]ccKey      // of lines with content: a hash of it, to tell copies apart
	mains   map[string]*ccBranch // by sessionId

	named     map[string]ccTitles // by sessionId
	summaries []ccSummed          // in the file's order

	sides   map[ccKey]*ccBranch  // sub-agents by sessionId and agent
	current map[string]*ccBranch // by sessionId: its branch that was last written to, no sidechain
	msgs    map[ccKey]*ccTurn    // by branch and message id: the turn that holds the response
	calls   map[ccKey]*ccCall
	open    []*ccTurn // not yet given, oldest first; given ones are dropped from time to time
	nCalls  int
	seq     int
	waiting []ccWaiting
	blocked int // bytes of waiting
}

func newCCTree(opt Options) *ccTree {
	return &ccTree{
		opt: opt, index: make(map[ccKey]*ccAnchor), content: make(map[ccKey]ccKey), mains: make(map[string]*ccBranch),
		named: make(map[string]ccTitles),
		sides: make(map[ccKey]*ccBranch), current: make(map[string]*ccBranch), msgs: make(map[ccKey]*ccTurn),
		calls: make(map[ccKey]*ccCall),
	}
}

// Lines are now and then written before their parents (a result one line before
// its call). A line that is not ready waits, this many lines or bytes at most; then
// it is an orphan.
const (
	maxCCWait      = 16
	maxCCLate      = 2 // where the file ends
	maxCCEarly     = 1 // a result, for its call
	maxCCWaitBytes = 64 << 20
)

type ccWaiting struct {
	rec *ccRecord
	seq int
	max int // it is given up when as many lines were read
}

// record takes the next record of the file.
func (k *ccTree) record(line int, b []byte) error {
	rec, err := parseCCRecord(b, line)
	if err != nil {
		k.loss.add(line, "skipped", "not a record: "+err.Error(), "")
		return nil
	}
	k.feed(rec)
	return nil
}

func (k *ccTree) feed(rec *ccRecord) {
	if rec.resultCopy {
		k.loss.count("skipped", "structured copies of tool results (toolUseResult); the results themselves are stored")
	}
	if rec.kind == ccBookkeeping && k.title(rec) {
		return
	}
	if rec.kind == ccBookkeeping {
		k.loss.count("skipped", "bookkeeping lines: "+ccTypeName(rec.typ))
		return
	}
	k.seq++
	k.try(rec)
	k.expire()
}

func ccTypeName(typ string) string {
	if s := ccWord(ccClip(typ, 60)); s != "" {
		return s
	}
	return "unnamed type"
}

// finish gives what is complete at the end of the file: turns with a response. With
// final it is the end of the transcript: all that is open is given too.
func (k *ccTree) finish(final bool) {
	for len(k.waiting) > 0 && (final || k.seq-k.waiting[0].seq >= maxCCLate) {
		k.giveUp(0)
	}
	for _, t := range k.open {
		if final || t.responded && !t.emitted && spoken(t.body.resp) {
			k.emit(t)
		}
	}
	k.open = nil
}

func (k *ccTree) try(rec *ccRecord) {
	if k.known(rec) {
		k.duplicate(rec)
		return
	}
	a, ready := k.ready(rec)
	if !ready {
		w := ccWaiting{rec, k.seq, maxCCWait + 1}
		if a != nil {
			w.max = maxCCEarly
		}
		k.waiting = append(k.waiting, w)
		k.blocked += rec.size
		return
	}
	k.place(rec, a)
	k.release()
}

func (k *ccTree) known(rec *ccRecord) bool { return k.index[ccKeyOf(rec.uuid)] != nil }

// ready finds the place of rec's parent, nil for a root. A line is not ready before
// its parent, and a tool result not before its call: its parent may be an earlier
// block of the message that the call is in.
func (k *ccTree) ready(rec *ccRecord) (a *ccAnchor, ready bool) {
	if rec.parent == "" {
		return nil, true
	}
	if a = k.index[ccKeyOf(rec.parent)]; a == nil {
		return nil, false
	}
	return a, rec.kind != ccUser || a.t == nil || a.t.emitted || !a.t.responded || !k.orphans(rec)
}

// orphans reports whether a user line holds a result whose call was not read.
func (k *ccTree) orphans(rec *ccRecord) bool {
	return slices.ContainsFunc(rec.blocks, func(block turns.Raw) bool {
		o := ccMembers(block)
		id := o.text("tool_use_id")
		return o.text("type") == "tool_result" && id != "" && k.calls[ccKeyOf(id)] == nil
	})
}

// release places the waiting lines that are ready, in the order of the file: the
// results of parallel calls hang on different blocks of one message, and each has
// to come before the answer, which hangs on one of them.
func (k *ccTree) release() {
	for i := 0; i < len(k.waiting); i++ {
		rec := k.waiting[i].rec
		a, ready := k.ready(rec)
		if !ready {
			continue
		}
		k.take(i)
		if k.known(rec) {
			k.duplicate(rec)
		} else {
			k.place(rec, a)
		}
		i = -1 // a line before it may have waited for it
	}
}

func (k *ccTree) take(i int) {
	k.blocked -= k.waiting[i].rec.size
	k.waiting = append(k.waiting[:i:i], k.waiting[i+1:]...)
}

// expire gives up the lines that have waited too long.
func (k *ccTree) expire() {
	for i := 0; i < len(k.waiting); i++ {
		if w := k.waiting[i]; k.seq-w.seq >= w.max || k.blocked > maxCCWaitBytes {
			k.giveUp(i)
			i = -1
		}
	}
}

// giveUp places a line that waits. Where its parent is missing it goes after the
// last turn of its session.
func (k *ccTree) giveUp(i int) {
	rec := k.waiting[i].rec
	k.take(i)
	if k.known(rec) {
		k.duplicate(rec)
		return
	}
	a := k.index[ccKeyOf(rec.parent)]
	if a == nil {
		if b := k.current[rec.session]; b != nil && !rec.sidechain {
			a = k.tailAnchor(b)
		}
		k.loss.add(rec.line, "repaired", "its parent is not in the file; it follows the last turn of its session", rec.uuid)
	}
	k.place(rec, a)
	k.release()
}

func (r *ccRecord) contentKey() ccKey {
	parts := []string{r.typ, string(r.msg.Content), string(r.compact)}
	return ccKeyOf(parts...)
}

func (k *ccTree) duplicate(rec *ccRecord) {
	if rec.kind == ccThrough || rec.kind == ccStop {
		k.loss.count("skipped", "bookkeeping lines: "+ccTypeName(rec.typ))
		return
	}
	if k.content[ccKeyOf(rec.uuid)] == rec.contentKey() {
		k.loss.count("kept_first", "copies of a line with the same uuid and content")
		return
	}
	k.loss.add(rec.line, "kept_first", "another line with the same uuid and other content; it is not stored", rec.uuid)
}

// place puts rec where it belongs. A is its parent's place, nil for a root.
func (k *ccTree) place(rec *ccRecord, a *ccAnchor) {
	a = k.branchOf(rec, a)
	k.setCurrent(a.b)
	k.content[ccKeyOf(rec.uuid)] = rec.contentKey()
	if rec.defect != "" {
		k.loss.add(rec.line, "skipped", rec.defect, rec.uuid)
		rec.kind = ccThrough
	}
	at := a
	switch rec.kind {
	case ccThrough, ccStop:
		k.loss.count("skipped", "bookkeeping lines: "+ccTypeName(rec.typ))
		if rec.kind == ccStop && a.t != nil && a.t.responded {
			k.emit(a.t)
		}
	case ccUser, ccQueued:
		at = k.user(rec, a)
	case ccAssistant:
		at = k.assistant(rec, a)
	case ccBoundary:
		at = k.boundary(rec, a)
	case ccSummary:
		at = k.summary(rec, a)
	case ccMicro:
		at = k.micro(rec, a)
	}
	k.index[ccKeyOf(rec.uuid)] = at
	k.setCurrent(at.b)
}

func (k *ccTree) setCurrent(b *ccBranch) {
	if !b.side {
		k.current[b.source] = b
	}
}

// tailAnchor is the place after everything on b.
func (k *ccTree) tailAnchor(b *ccBranch) *ccAnchor {
	t := b.tail
	switch {
	case t == nil && b.fork == nil:
		return &ccAnchor{b: b}
	case t.open():
		return &ccAnchor{b: b, t: t, phase: ccMessages, pos: len(t.body.msgs)}
	}
	return &ccAnchor{b: b, t: b.last(), phase: ccAfter}
}
