package claude

import (
	"slices"
	"strings"
	"time"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// turnPhase is where in a turn a line is.
type turnPhase uint8

const (
	beforeTurns   turnPhase = iota // before the branch's first turn
	inMessages                     // in the messages half
	afterMessages                  // in the response, or a compaction
)

// claudeAnchor is the place of a line, which its children continue. A transparent line
// has the place of its parent.
type claudeAnchor struct {
	b            *claudeBranch
	t            *claudeTurn
	phase        turnPhase
	messageCount int  // in the messages half: how many messages stand up to this line
	prompted     bool // a prompt follows here: a second one is a rewind
}

// claudeBranch is the path of one session of the ledger. It has no branches of its own.
type claudeBranch struct {
	id              turns.ID
	source          string // sessionId
	agent           string // of a sidechain
	side            bool
	opened          bool
	time            time.Time
	forkedAt        *claudeTurn // the turn that it was forked from
	spawnedBy       turns.Ref
	meta            claudeMeta
	recordedContext workContext // as the meta of the last emitted turn has it
	tail            *claudeTurn
	copied          bool // it is of the session that this file's was forked from
	firstLine       int  // counted lines: the one that it began with
	lastLine        int  // and the last that came to it
}

// claudeTurn is a turn or compaction. Its body is nil once it was emitted.
type claudeTurn struct {
	b            *claudeBranch
	id           turns.ID
	first        indexKey // the line that it begins with
	branch       turns.ID // of a fork that begins with it
	parent       *claudeTurn
	continuation *claudeTurn // what continues it on the same branch
	depth        int
	emitted      bool
	responded    bool
	compaction   bool
	copied       bool // of the session that the file's was forked from, which has it too
	body         *claudeBody
}

// open reports whether more messages may join t.
func (t *claudeTurn) open() bool { return t != nil && !t.emitted && !t.responded && !t.compaction }

// isLeft reports whether t is left to the session that it was copied from, which may have
// a response to it: it is a prompt without one, at the end of what was copied.
func (t *claudeTurn) isLeft() bool { return t.copied && t.open() }

// complete reports whether the response of t can't get another block: the provider
// stopped, and not for the calls, of which more may come on lines of their own. Each
// line of a message has its stop reason, so a line of reasoning does not end it.
// Versions that write no stop reason leave open which line is the last.
func (t *claudeTurn) complete() bool {
	if t.emitted || !t.responded {
		return t.emitted
	}
	r := t.body.response
	return r.FinishReason != "" && r.FinishReason != "tool_use" && len(r.Parts) > 0 && r.Parts[len(r.Parts)-1].Type != turns.Reasoning
}

// claudeBody is the content of a turn that is not finished.
type claudeBody struct {
	time       time.Time // of the newest message before the call
	model      string
	bound      turns.TimeBound
	messages   []turns.Message
	order      []int  // of each message: the order of the call it answers, or -1
	program    []bool // of each message: a program wrote it in the name of the user
	hasResults bool
	hasTexts   bool
	response   *turns.Message
	usage      *turns.Usage
	total      turns.Usage       // as the provider has it, of all steps
	calls      []turns.ModelCall // behind the response, besides the one of usage
	meta       claudeMeta
	context    workContext
	compaction transcript.Compaction // of a compaction: what is known so far
	hasSummary bool                  // its summary line was read
}

// claudeCall is a tool call by its id.
type claudeCall struct {
	turn       *claudeTurn
	order      int
	answeredIn *claudeTurn // the turn that holds its result; nil: none yet
}

// claudeTree is the fold over the records of a transcript.
type claudeTree struct {
	transcript.Source
	opt     transcript.Options
	index   map[indexKey]*claudeAnchor
	content map[indexKey]indexKey    // of lines with content: a hash of it, to tell copies apart
	mains   map[string]*claudeBranch // by sessionId

	named     map[string]claudeTitles // by sessionId
	summaries []claudeSummary         // in the file's order

	sides        map[indexKey]*claudeBranch // sub-agents by sessionId and agent
	current      map[string]*claudeBranch   // by sessionId: its branch that was last written to, no sidechain
	branches     map[string][]*claudeBranch // by sessionId: all but those of sub-agents, in the order in which they began
	lastCopy     *claudeRecord              // the last line that was copied from another session; nil: none was
	origins      map[string]bool            // by sessionId: whether lines are copied from it, or it is the file's own
	copiedInto   string                     // the session of the file that the last copies came into
	lastTime     time.Time                  // of the newest line so far
	kept         map[indexKey]*claudeTurn   // by line that a compaction kept, and whose children stay before it: the compaction
	responses    map[indexKey]*claudeTurn   // by branch and message id: the turn that holds the response
	calls        map[indexKey]*claudeCall
	open         []*claudeTurn // not yet emitted, oldest first; emitted ones are dropped from time to time
	callCount    int
	lineCount    int // lines with content so far
	waiting      []waitingLine
	waitingBytes int // bytes of waiting

	tornNamed   map[indexKey]tornLine // by uuid
	tornUnnamed []tornLine
	lost        map[indexKey]*claudeAnchor // by uuid of a parent that is not in the file: where its children were placed
}

func newClaudeTree(opt transcript.Options) *claudeTree {
	return &claudeTree{
		opt: opt, index: make(map[indexKey]*claudeAnchor), content: make(map[indexKey]indexKey), mains: make(map[string]*claudeBranch),
		named: make(map[string]claudeTitles), origins: make(map[string]bool),
		sides: make(map[indexKey]*claudeBranch), current: make(map[string]*claudeBranch), branches: make(map[string][]*claudeBranch), responses: make(map[indexKey]*claudeTurn),
		calls: make(map[indexKey]*claudeCall), kept: make(map[indexKey]*claudeTurn),
	}
}

// Sometimes a line is written before its parent (a result one line before its call). A
// line that is not ready waits for at most this many lines or bytes; then it is an
// orphan.
const (
	maxWaiting       = 16
	maxWaitingResult = 1 // a result, for its call
	maxWaitingBytes  = 64 << 20
)

type waitingLine struct {
	rec *claudeRecord
	seq int
	max int // it stops waiting when as many lines were read
}

// record reads the next record of the file.
func (k *claudeTree) record(line int, b []byte) error {
	rec, err := parseRecord(b, line)
	if err != nil {
		k.Loss.Add(line, "skipped", "not a record: "+err.Error(), "")
		return nil
	}
	k.addRecord(rec)
	return nil
}

func (k *claudeTree) addRecord(rec *claudeRecord) {
	if rec.resultCopy {
		k.Loss.Count("skipped", "structured copies of tool results (toolUseResult); the results themselves are stored")
	}
	if rec.kind == bookkeepingLine && k.addTitle(rec) {
		return
	}
	if rec.kind == bookkeepingLine {
		k.skipped(rec)
		return
	}
	if rec.hasContent() {
		k.lineCount++
	}
	k.settleOwner(rec)
	k.placeOrWait(rec)
	k.expire()
}

// skipped counts a line that is not stored, and reports what of it the model saw.
func (k *claudeTree) skipped(rec *claudeRecord) {
	if rec.retracted > 0 {
		k.Loss.AddMany(rec.retracted, rec.line, "stored", "messages that Claude Code takes back later, with a line "+typeName(rec.typ)+", stay on the path", rec.uuid)
	}
	k.Loss.Count("skipped", skippedReason(rec.typ)+typeName(rec.typ))
}

// skippedReason returns why a line of a type is not stored.
func skippedReason(typ string) string {
	switch typ {
	case "content-replacement", "marble-origami-commit", "marble-origami-snapshot", "system snip_boundary", "system context_collapse":
		return "lines that change what the model saw of earlier messages, which stand here as they were: "
	case "attachment hook_success", "attachment hook_system_message", "attachment hook_cancelled", "attachment hook_non_blocking_error", "attachment hook_error_during_execution",
		"attachment command_permissions", "attachment hook_permission_decision", "attachment structured_output", "attachment dynamic_skill", "attachment batching_reminder_sent":
		return "bookkeeping lines: "
	}
	if strings.HasPrefix(typ, "attachment") {
		return "texts that Claude Code showed to the model beside the conversation, as attachments: "
	}
	return "bookkeeping lines: "
}

func typeName(typ string) string {
	if s := machineWord(values.Clipped(typ, 60)); s != "" {
		return s
	}
	return "unnamed type"
}

// finish emits the turns that are complete at the end of the file. With final the
// transcript has ended: finish emits all turns, and places all lines.
func (k *claudeTree) finish(final bool) {
	for final && len(k.waiting) > 0 {
		k.placeOrphan(0)
	}
	if final {
		k.finishCopy()
	}
	for _, t := range k.open {
		if !t.isLeft() && (final || t.complete()) {
			k.emit(t)
		}
	}
	unfinished := 0
	for _, t := range k.open {
		if !t.emitted && !t.isLeft() {
			unfinished++
		}
	}
	k.Loss.Unfinished(unfinished)
	k.Loss.AddEnd(len(k.waiting), "lines whose parent is not in the file yet; --final takes them")
	k.open = nil
}

// finishCopy opens the session of the file where it has nothing but what it copied.
func (k *claudeTree) finishCopy() {
	rec := k.lastCopy
	if rec == nil {
		return
	}
	if k.opt.Copied {
		k.Loss.Add(0, "stored", "the session that it was forked from is not in the ledger; what was copied from it is stored as that session's", rec.session)
	}
	own := *rec
	own.session, own.copied = rec.into, false
	a := k.index[keyOf(rec.uuid)]
	b := k.mains[own.session]
	if b != nil && !b.isEmpty() {
		return
	}
	var t *claudeTurn
	if a != nil && !a.b.side {
		t = a.t
	}
	if t.open() {
		t = t.parent
	}
	if t == nil {
		k.Loss.Add(rec.line, "skipped", "the session has nothing but lines that were copied from another one, before its first response", rec.session)
		return
	}
	k.emit(t)
	b = k.mainBranch(&own)
	b.begin(&own)
	b.forkedAt, b.meta.ForkedFrom = t, t.b.source
	k.openBranch(b)
}

// completeTurns emits the turns that are complete, and returns their steps.
func (k *claudeTree) completeTurns() []transcript.Step {
	for _, t := range k.open {
		if t.complete() {
			k.emit(t)
		}
	}
	return k.TakeSteps()
}

func (k *claudeTree) placeOrWait(rec *claudeRecord) {
	if k.isKnown(rec) {
		k.duplicate(rec)
		return
	}
	a, ready := k.ready(rec)
	if !ready {
		w := waitingLine{rec, k.lineCount, maxWaiting + 1}
		if a != nil {
			w.max = maxWaitingResult
		}
		k.waiting = append(k.waiting, w)
		k.waitingBytes += rec.size
		return
	}
	k.place(rec, a)
	k.placeWaiting()
}

func (k *claudeTree) isKnown(rec *claudeRecord) bool {
	a := k.index[keyOf(rec.uuid)]
	if a != nil && rec.alias != "" {
		k.index[keyOf(rec.alias)] = a
	}
	return a != nil
}

// ready returns the place of rec's parent, nil for a root. A line is ready after its
// parent, a tool result after its call. The parent of a result may be an earlier block
// of the call's message.
func (k *claudeTree) ready(rec *claudeRecord) (a *claudeAnchor, ready bool) {
	if rec.parent == "" {
		return nil, true
	}
	if a = k.index[keyOf(rec.parent)]; a == nil {
		return nil, false
	}
	return a, rec.kind != userLine || a.t == nil || a.t.emitted || !a.t.responded || !k.hasOrphanResult(rec)
}

// hasOrphanResult reports whether a user line holds a result whose call was not read.
func (k *claudeTree) hasOrphanResult(rec *claudeRecord) bool {
	return slices.ContainsFunc(rec.blocks, func(block turns.Raw) bool {
		o := values.Members(block)
		id := o.Text("tool_use_id")
		return o.Text("type") == "tool_result" && id != "" && k.calls[keyOf(id)] == nil
	})
}

// placeWaiting places the waiting lines that are ready, in the order of the file: the
// results of parallel calls hang on different blocks of one message, and each has
// to come before the answer, which hangs on one of them.
func (k *claudeTree) placeWaiting() {
	for i := 0; i < len(k.waiting); i++ {
		rec := k.waiting[i].rec
		a, ready := k.ready(rec)
		if !ready {
			continue
		}
		k.removeWaiting(i)
		if k.isKnown(rec) {
			k.duplicate(rec)
		} else {
			k.place(rec, a)
		}
		i = -1 // a line before it may have waited for it
	}
}

func (k *claudeTree) removeWaiting(i int) {
	k.waitingBytes -= k.waiting[i].rec.size
	k.waiting = append(k.waiting[:i:i], k.waiting[i+1:]...)
}

// expire places the lines that have waited too long.
func (k *claudeTree) expire() {
	for i := 0; i < len(k.waiting); i++ {
		if w := k.waiting[i]; k.lineCount-w.seq >= w.max || k.waitingBytes > maxWaitingBytes {
			k.placeOrphan(i)
			i = -1
		}
	}
}

// placeOrphan places a line that waits. If its parent is missing, the line follows the
// last turn of its session.
func (k *claudeTree) placeOrphan(i int) {
	rec := k.waiting[i].rec
	k.removeWaiting(i)
	if k.isKnown(rec) {
		k.duplicate(rec)
		return
	}
	a := k.index[keyOf(rec.parent)]
	if a == nil {
		a = k.orphanPlace(rec)
	}
	k.place(rec, a)
	k.placeWaiting()
}

func (r *claudeRecord) contentKey() indexKey {
	parts := []string{r.typ, string(r.msg.Content), string(r.compact)}
	return keyOf(parts...)
}

func (k *claudeTree) duplicate(rec *claudeRecord) {
	if rec.kind == transparentLine || rec.kind == stopLine {
		k.skipped(rec)
		return
	}
	if k.content[keyOf(rec.uuid)] == rec.contentKey() {
		k.Loss.Count("kept_first", "copies of a line with the same uuid and content")
		return
	}
	k.Loss.Add(rec.line, "kept_first", "another line with the same uuid and other content; it is not stored", rec.uuid)
}

// place adds rec at the place a of its parent, nil for a root.
func (k *claudeTree) place(rec *claudeRecord, a *claudeAnchor) {
	a = k.branchOf(rec, a)
	k.setCurrent(rec, a.b)
	if rec.copied {
		k.lastCopy = &claudeRecord{line: rec.line, uuid: rec.uuid, session: rec.session, into: rec.into, copied: true, time: rec.time, cwd: rec.cwd, branch: rec.branch, version: rec.version}
	}
	k.content[keyOf(rec.uuid)] = rec.contentKey()
	if rec.defect != "" {
		k.Loss.Add(rec.line, "skipped", rec.defect, rec.uuid)
		rec.kind = transparentLine
	}
	at := a
	switch rec.kind {
	case transparentLine, stopLine:
		k.skipped(rec)
		if rec.kind == stopLine && a.t != nil && a.t.responded {
			k.emit(a.t)
		}
	case userLine, queuedLine:
		if k.kept[keyOf(rec.parent)] != nil && !rec.meta {
			k.Loss.Add(rec.line, "repaired", "a rewind to a message that a compaction kept: what follows is shown after the whole history before it, without the compaction", rec.uuid)
		}
		at = k.user(rec, a)
	case assistantLine:
		at = k.assistant(rec, a)
	case boundaryLine:
		at = k.boundary(rec, a)
	case summaryLine:
		at = k.summary(rec, a)
	case microLine:
		at = k.microcompaction(rec, a)
	}
	k.index[keyOf(rec.uuid)] = at
	if rec.alias != "" {
		k.index[keyOf(rec.alias)] = at
	}
	if rec.time.After(k.lastTime) {
		k.lastTime = rec.time
	}
	k.setCurrent(rec, at.b)
}

// hasContent reports whether a line stands for more than a place in the chain.
func (r *claudeRecord) hasContent() bool { return r.kind != transparentLine && r.kind != stopLine }

// setCurrent notes that rec came to b. Lines that the reader does not know count for nothing.
func (k *claudeTree) setCurrent(rec *claudeRecord, b *claudeBranch) {
	if !rec.hasContent() {
		return
	}
	b.lastLine = k.lineCount
	if !b.side {
		k.current[b.source] = b
	}
}

// tailAnchor returns the place after everything on b.
func (k *claudeTree) tailAnchor(b *claudeBranch) *claudeAnchor {
	t := b.tail
	switch {
	case t == nil && b.forkedAt == nil:
		return &claudeAnchor{b: b}
	case t.open():
		return &claudeAnchor{b: b, t: t, phase: inMessages, messageCount: len(t.body.messages)}
	}
	return &claudeAnchor{b: b, t: b.last(), phase: afterMessages}
}
