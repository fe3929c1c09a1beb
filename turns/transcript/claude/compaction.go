package claude

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"nexus/turns/transcript/claude/record"
)

// boundary begins a compaction after everything on its branch. The next line usually
// holds its summary.
func (k *tree) boundary(rec *record.Line, a *anchor) *anchor {
	parent := a.b.last()
	if parent == nil && !(rec.Copied && a.b.copied) { // the session that a copy is of has what was before it
		k.Loss.Add(rec.Number, "repaired", "a compaction with nothing before it in the file; its summary is kept as an ordinary message", rec.UUID)
		return a
	}
	t := k.newCompaction(rec, a.b, parent)
	var m struct {
		Trigger turns.Raw `json:"trigger"`
		Before  turns.Raw `json:"preTokens"`
	}
	_ = json.Unmarshal(rec.Compact, &m) // absent or odd: the zero values
	if values.String(m.Trigger) == "manual" {
		t.body.compaction.Trigger = "manual"
	}
	_ = json.Unmarshal(m.Before, &t.body.compaction.TokensBefore)
	k.keep(rec, t, parent)
	return &anchor{b: t.b, t: t, phase: afterMessages}
}

// preserved names the lines that a compaction keeps as they are. What follows the
// compaction hangs on the last of them.
type preserved struct {
	head, tail string
	lines      []string // all, where the compaction names them
	anchor     string   // the line that they follow: the summary, or the boundary itself
}

// preservedBy reads which lines a compaction keeps. Versions name the first and the last,
// or all.
func preservedBy(metadata turns.Raw) (p preserved) {
	o := values.Members(metadata)
	either := func(o values.Object, name, other string) turns.Raw {
		if v := o.Get(name); v != nil {
			return v
		}
		return o.Get(other)
	}
	if s := values.Members(either(o, "preservedSegment", "preserved_segment")); s != nil {
		p.head, p.tail = values.String(either(s, "headUuid", "head_uuid")), values.String(either(s, "tailUuid", "tail_uuid"))
		p.anchor = values.String(either(s, "anchorUuid", "anchor_uuid"))
	}
	s := values.Members(either(o, "preservedMessages", "preserved_messages"))
	if s == nil {
		return p
	}
	var raw []turns.Raw
	if json.Unmarshal(s.Get("uuids"), &raw) != nil || len(raw) == 0 {
		_ = json.Unmarshal(either(s, "allUuids", "all_uuids"), &raw)
	}
	for _, r := range raw {
		if id := values.String(r); id != "" {
			p.lines = append(p.lines, id)
		}
	}
	if len(p.lines) > 0 {
		p.head, p.tail = p.lines[0], p.lines[len(p.lines)-1]
		p.anchor = values.String(either(s, "anchorUuid", "anchor_uuid"))
	}
	return p
}

// keep sets what the compaction t keeps of the path to its parent. A line that hangs on the
// last kept one from now on follows t.
func (k *tree) keep(rec *record.Line, t, parent *turn) {
	p := preservedBy(rec.Compact)
	if p.head == "" && p.tail == "" {
		return
	}
	head, tail := k.index[keyOf(p.head)], k.index[keyOf(p.tail)]
	for i := 0; (head == nil || head.t == nil) && i < len(p.lines); i++ { // lines that stand for nothing
		head = k.index[keyOf(p.lines[i])]
	}
	if tail != nil && tail.t != nil && isOnPath(parent, tail.t) {
		at := &anchor{b: t.b, t: t, phase: afterMessages}
		for _, id := range p.lines {
			if a := k.index[keyOf(id)]; a != nil && a.t != nil && id != p.tail {
				k.kept[keyOf(id)] = t
			}
		}
		k.index[keyOf(p.tail)] = at
		delete(k.kept, keyOf(p.tail))
	}
	switch {
	case head == nil || head.t == nil || !isOnPath(parent, head.t):
		k.Loss.Add(rec.Number, "repaired", "a compaction keeps messages that are not on the path before it; none are kept", rec.UUID)
		return
	case p.anchor == rec.UUID && p.anchor != "":
		k.Loss.Add(rec.Number, "repaired", "a compaction keeps the beginning of what it covers; only its summary is shown", rec.UUID)
		return
	}
	first := head.t
	if first.compaction { // its summary is kept
		first = first.continuation
	}
	if first == nil || first == t {
		return
	}
	t.body.compaction.FirstKept = first.id
	if first == head.t && first.first != keyOf(p.head) && !slices.ContainsFunc(p.lines, func(id string) bool { return keyOf(id) == first.first }) {
		k.Loss.Add(rec.Number, "repaired", "a compaction keeps the messages from the middle of a turn on; all of the turn is kept", rec.UUID)
	}
	if tail != nil && tail.t != nil && tail.t != parent {
		k.Loss.Add(rec.Number, "repaired", "a compaction keeps messages up to a turn before the last; those after it are kept too", rec.UUID)
	}
}

// newCompaction returns a compaction after parent. It emits parent.
func (k *tree) newCompaction(rec *record.Line, b *branch, parent *turn) *turn {
	if parent != nil {
		k.emit(parent)
	}
	t := &turn{
		b: b, parent: parent, compaction: true, copied: rec.Copied && b.copied,
		id:   recordID(rec.Time, b.source, "compaction", rec.UUID),
		body: &body{compaction: transcript.Compaction{Trigger: "threshold"}},
	}
	t.body.setTime(rec.Time, k.lastTime)
	t.body.meta.UUID, t.body.meta.Metadata = rec.UUID, rec.Compact
	b.begin(rec)
	k.link(t)
	return t
}

// summary reads the line with the summary of a compaction.
func (k *tree) summary(rec *record.Line, a *anchor) *anchor {
	t := a.t
	if t == nil || !t.compaction || t.emitted {
		t = a.b.last()
	}
	switch {
	case t == nil:
		k.Loss.Add(rec.Number, "repaired", "a summary with nothing before it in the file is kept as an ordinary message", rec.UUID)
		rec.Kind = record.User
		return k.user(rec, a)
	case !t.compaction:
		k.Loss.Add(rec.Number, "repaired", "a summary without its compact_boundary line is taken as a compaction", rec.UUID)
		t = k.newCompaction(rec, a.b, t)
	case t.emitted:
		k.Loss.Add(rec.Number, "repaired", "a second summary of one compaction is kept as an ordinary message", rec.UUID)
		rec.Kind = record.User
		return k.user(rec, a)
	}
	pieces, _ := k.userPieces(rec)
	c := &t.body.compaction
	for _, p := range pieces {
		if p.call != nil {
			p.msg = k.strayResult(rec, p.msg.Parts[0], "it stands in a summary")
		}
		c.Replacement = append(c.Replacement, p.msg)
		for _, part := range p.msg.Parts {
			if part.Type == turns.Text {
				c.Summary += part.Content
			}
		}
	}
	t.body.meta.Messages = append(t.body.meta.Messages, rec.UUID)
	t.body.hasSummary = true
	k.emit(t)
	return &anchor{b: t.b, t: t, phase: afterMessages}
}

// microcompaction reads a microcompaction: tool results that are no longer shown. It
// happens before a call, so it stands before the turn whose messages are being read.
func (k *tree) microcompaction(rec *record.Line, a *anchor) *anchor {
	b := a.b
	next, parent := b.tail, b.last()
	if next.open() {
		parent = next.parent
	}
	if parent == nil {
		k.Loss.Add(rec.Number, "skipped", "a microcompaction with nothing before it in the file", rec.UUID)
		return a
	}
	cleared := k.cleared(rec, b, parent)
	if len(cleared) == 0 {
		return a
	}
	t := k.newCompaction(rec, b, parent)
	t.body.compaction.Cleared, t.body.hasSummary = cleared, true
	var m struct {
		Trigger turns.Raw `json:"trigger"`
		Before  turns.Raw `json:"preTokens"`
	}
	_ = json.Unmarshal(rec.Compact, &m)
	if values.String(m.Trigger) == "manual" {
		t.body.compaction.Trigger = "manual"
	}
	_ = json.Unmarshal(m.Before, &t.body.compaction.TokensBefore)
	k.emit(t)
	if next.open() { // put next after t
		next.parent, t.continuation, b.tail = t, next, next
		next.depth = t.depth + 1
		return a
	}
	return &anchor{b: b, t: t, phase: afterMessages}
}

// cleared returns the cleared results with the turns that hold them, on the path down to
// parent.
func (k *tree) cleared(rec *record.Line, b *branch, parent *turn) (out []transcript.ClearedResult) {
	var m struct {
		IDs         turns.Raw `json:"compactedToolIds"`
		Attachments turns.Raw `json:"clearedAttachmentUUIDs"`
	}
	_ = json.Unmarshal(rec.Compact, &m)
	var ids, attachments []turns.Raw
	_ = json.Unmarshal(m.IDs, &ids)
	_ = json.Unmarshal(m.Attachments, &attachments)
	if len(attachments) > 0 {
		k.Loss.Add(rec.Number, "skipped", values.Plural(len(attachments), "cleared attachment")+" of a microcompaction; attachments are not stored", rec.UUID)
	}
	var missing []string
	for _, raw := range ids {
		id := values.String(raw)
		c := k.calls[keyOf(id)]
		if c == nil || c.answeredIn == nil || !isOnPath(parent, c.answeredIn) {
			missing = append(missing, id)
			continue
		}
		out = append(out, transcript.ClearedResult{Turn: c.answeredIn.id, Call: id})
	}
	if len(missing) > 0 || len(ids) == 0 {
		k.Loss.Add(rec.Number, "skipped", fmt.Sprintf("a microcompaction names %s, %d of them not on the path before it: %s",
			values.Plural(len(ids), "result"), len(missing), values.Clipped(strings.ToValidUTF8(strings.Join(missing, " "), ""), 200)), rec.UUID)
	}
	return out
}
