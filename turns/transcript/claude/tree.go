package claude

import (
	"strings"

	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"nexus/turns/transcript/claude/content"
	"nexus/turns/transcript/claude/record"
)

// Sometimes a line is written before its parent (a result one line before its call). A
// line that is not ready waits for at most this many lines or bytes; then it is an
// orphan.
const (
	maxWaiting       = 16
	maxWaitingResult = 1 // a result, for its call
	maxWaitingBytes  = 64 << 20
)

// record reads the next record of the file.
func (k *tree) record(line int, b []byte) error {
	rec, err := record.Parse(b, line)
	if err != nil {
		k.Loss.Add(line, "skipped", "not a record: "+err.Error(), "")
		return nil
	}
	k.addRecord(rec)
	return nil
}

func (k *tree) addRecord(rec *record.Line) {
	if rec.ResultCopy {
		k.Loss.Count("skipped", "structured copies of tool results (toolUseResult); the results themselves are stored")
	}
	if rec.Kind == record.Bookkeeping && k.addTitle(rec) {
		return
	}
	if rec.Kind == record.Bookkeeping {
		k.skipped(rec)
		return
	}
	if rec.HasContent() {
		k.lineCount++
	}
	k.settleOwner(rec)
	k.placeOrWait(rec)
	k.expire()
}

// skipped counts a line that is not stored, and reports what of it the model saw.
func (k *tree) skipped(rec *record.Line) {
	if rec.Retracted > 0 {
		k.Loss.AddMany(rec.Retracted, rec.Number, "stored", "messages that Claude Code takes back later, with a line "+typeName(rec.Type)+", stay on the path", rec.UUID)
	}
	k.Loss.Count("skipped", skippedReason(rec.Type)+typeName(rec.Type))
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
	if s := content.Word(values.Clipped(typ, 60)); s != "" {
		return s
	}
	return "unnamed type"
}

// finish emits the turns that are complete at the end of the file. With final the
// transcript has ended: finish emits all turns, and places all lines.
func (k *tree) finish(final bool) {
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
func (k *tree) finishCopy() {
	rec := k.lastCopy
	if rec == nil {
		return
	}
	if k.opt.Copied {
		k.Loss.Add(0, "stored", "the session that it was forked from is not in the ledger; what was copied from it is stored as that session's", rec.Session)
	}
	own := *rec
	own.Session, own.Copied = rec.Into, false
	a := k.index[keyOf(rec.UUID)]
	b := k.mains[own.Session]
	if b != nil && !b.isEmpty() {
		return
	}
	var t *turn
	if a != nil && !a.b.side {
		t = a.t
	}
	if t.open() {
		t = t.parent
	}
	if t == nil {
		k.Loss.Add(rec.Number, "skipped", "the session has nothing but lines that were copied from another one, before its first response", rec.Session)
		return
	}
	k.emit(t)
	b = k.mainBranch(&own)
	b.begin(&own)
	b.forkedAt, b.meta.ForkedFrom = t, t.b.source
	k.openBranch(b)
}

// completeTurns emits the turns that are complete, and returns their steps.
func (k *tree) completeTurns() []transcript.Step {
	for _, t := range k.open {
		if t.complete() {
			k.emit(t)
		}
	}
	return k.TakeSteps()
}

func (k *tree) placeOrWait(rec *record.Line) {
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
		k.waitingBytes += rec.Size
		return
	}
	k.place(rec, a)
	k.placeWaiting()
}

func (k *tree) isKnown(rec *record.Line) bool {
	a := k.index[keyOf(rec.UUID)]
	if a != nil && rec.Alias != "" {
		k.index[keyOf(rec.Alias)] = a
	}
	return a != nil
}

// ready returns the place of rec's parent, nil for a root. A line is ready after its
// parent, a tool result after its call. The parent of a result may be an earlier block
// of the call's message.
func (k *tree) ready(rec *record.Line) (a *anchor, ready bool) {
	if rec.Parent == "" {
		return nil, true
	}
	if a = k.index[keyOf(rec.Parent)]; a == nil {
		return nil, false
	}
	return a, rec.Kind != record.User || a.t == nil || a.t.emitted || !a.t.responded || !k.hasOrphanResult(rec)
}

// placeWaiting places the waiting lines that are ready, in the order of the file: the
// results of parallel calls hang on different blocks of one message, and each has
// to come before the answer, which hangs on one of them.
func (k *tree) placeWaiting() {
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

func (k *tree) removeWaiting(i int) {
	k.waitingBytes -= k.waiting[i].rec.Size
	k.waiting = append(k.waiting[:i:i], k.waiting[i+1:]...)
}

// expire places the lines that have waited too long.
func (k *tree) expire() {
	for i := 0; i < len(k.waiting); i++ {
		if w := k.waiting[i]; k.lineCount-w.seq >= w.max || k.waitingBytes > maxWaitingBytes {
			k.placeOrphan(i)
			i = -1
		}
	}
}

// placeOrphan places a line that waits. If its parent is missing, the line follows the
// last turn of its session.
func (k *tree) placeOrphan(i int) {
	rec := k.waiting[i].rec
	k.removeWaiting(i)
	if k.isKnown(rec) {
		k.duplicate(rec)
		return
	}
	a := k.index[keyOf(rec.Parent)]
	if a == nil {
		a = k.orphanPlace(rec)
	}
	k.place(rec, a)
	k.placeWaiting()
}

func (k *tree) duplicate(rec *record.Line) {
	if rec.Kind == record.Transparent || rec.Kind == record.Stop {
		k.skipped(rec)
		return
	}
	if k.content[keyOf(rec.UUID)] == contentKey(rec) {
		k.Loss.Count("kept_first", "copies of a line with the same uuid and content")
		return
	}
	k.Loss.Add(rec.Number, "kept_first", "another line with the same uuid and other content; it is not stored", rec.UUID)
}

// place adds rec at the place a of its parent, nil for a root.
func (k *tree) place(rec *record.Line, a *anchor) {
	a = k.branchOf(rec, a)
	k.setCurrent(rec, a.b)
	if rec.Copied {
		k.lastCopy = &record.Line{Number: rec.Number, UUID: rec.UUID, Session: rec.Session, Into: rec.Into, Copied: true, Time: rec.Time, Cwd: rec.Cwd, Branch: rec.Branch, Version: rec.Version}
	}
	k.content[keyOf(rec.UUID)] = contentKey(rec)
	if rec.Defect != "" {
		k.Loss.Add(rec.Number, "skipped", rec.Defect, rec.UUID)
		rec.Kind = record.Transparent
	}
	at := a
	switch rec.Kind {
	case record.Transparent, record.Stop:
		k.skipped(rec)
		if rec.Kind == record.Stop && a.t != nil && a.t.responded {
			k.emit(a.t)
		}
	case record.User, record.Queued:
		if k.kept[keyOf(rec.Parent)] != nil && !rec.Meta {
			k.Loss.Add(rec.Number, "repaired", "a rewind to a message that a compaction kept: what follows is shown after the whole history before it, without the compaction", rec.UUID)
		}
		at = k.user(rec, a)
	case record.Assistant:
		at = k.assistant(rec, a)
	case record.Boundary:
		at = k.boundary(rec, a)
	case record.Summary:
		at = k.summary(rec, a)
	case record.Micro:
		at = k.microcompaction(rec, a)
	}
	k.index[keyOf(rec.UUID)] = at
	if rec.Alias != "" {
		k.index[keyOf(rec.Alias)] = at
	}
	if rec.Time.After(k.lastTime) {
		k.lastTime = rec.Time
	}
	k.setCurrent(rec, at.b)
}

// setCurrent notes that rec came to b. Lines that the reader does not know count for nothing.
func (k *tree) setCurrent(rec *record.Line, b *branch) {
	if !rec.HasContent() {
		return
	}
	b.lastLine = k.lineCount
	if !b.side {
		k.current[b.source] = b
	}
}
