package codex

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// codexAnchor names the first item of a turn, by which the turn has its id.
type codexAnchor struct {
	scope string // the task, else the compaction before it
	key   string // the item's id, else the digest of its content
	n     int    // of those with this scope and key, in their order
}

// anchorAt makes an item the anchor of the next turn, if it is the first of its items.
func (c *codexReader) anchorAt(it *codexItem, r *codexRecord) {
	if c.anchor.key != "" || c.history.is == historyGiven {
		return
	}
	c.anchor = c.anchorOf(it, r)
}

// anchorOf returns the anchor that an item is.
func (c *codexReader) anchorOf(it *codexItem, r *codexRecord) codexAnchor {
	a := codexAnchor{scope: c.scope, key: "id " + it.ID}
	if a.scope == "" {
		a.scope = c.compacted
	}
	if it.ID == "" {
		a.key = contentKey(r.Payload)
		if c.scope != "" && c.replaced[a.key] {
			a.key += " " + r.Time
		}
	}
	n := c.equals[a]
	c.equals[a]++
	a.n = n
	return a
}

// contentKey returns a digest of an item's content, which is the same however the JSON is
// spaced and ordered, and whatever Codex notes beside it.
func contentKey(raw jsontext.Value) string {
	const notes = "internal_chat_message_metadata_passthrough"
	b := raw.Clone()
	if bytes.Contains(b, []byte(notes)) {
		var members map[string]turns.Raw
		if values.Decode(b, &members) == nil {
			delete(members, notes)
			b = jsontext.Value(values.Encoded(members))
		}
	}
	if b.Canonicalize() != nil {
		b = raw
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// openThread returns the thread that the next turn belongs to, and emits its session first:
// a fork where the turn does not follow the session's last one.
func (c *codexReader) openThread() *codexThread {
	c.flushUncounted()
	t := &c.threads[c.index]
	switch {
	case t.session.IsZero():
		c.openSession(t.root, t.at)
	case c.at.Turn != t.tip:
		if c.at.IsZero() {
			c.Loss.Add(0, "stored", "what follows a rollback to before the first turn is a session of its own: there is no turn to fork from", t.id)
		}
		c.openSession(turns.DeriveID(t.at, "codex branch", t.id, t.tip.String(), c.at.Turn.String()), t.at)
	}
	return t
}

// openSession begins a session of the thread that is being read, after what was read last.
func (c *codexReader) openSession(id turns.ID, at time.Time) {
	t, m := &c.threads[c.index], &c.metas[c.index]
	var spawned turns.Ref
	if up := m.spawner(); up != "" {
		spawned.Session = newCodexThread(&codexMeta{ID: up}).root
	}
	var st transcript.Step
	if c.at.IsZero() {
		o := &transcript.Open{ID: id, Time: at, SpawnedBy: spawned, Meta: m.raw()}
		if id == t.root {
			o.Exported = transcript.ExportedFrom(m.ID, m.Mark)
		}
		if s := m.Instructions.Text; s != "" {
			o.System = []turns.Section{{Content: s}}
		}
		st.Open = o
	} else {
		st.Fork = &transcript.Fork{ID: id, At: c.at, Time: at, SpawnedBy: spawned, Meta: m.raw()}
	}
	if c.emitted() {
		c.Step(st)
	}
	t.session, t.tip, c.parent = id, c.at.Turn, c.at.Turn
}

// timeOf returns the time of what is being read, and how far it is known: at, unless that is
// the time of the copy.
func (c *codexReader) timeOf(at time.Time) (time.Time, turns.TimeBound) {
	own := c.threads[c.index].at
	if c.index > 0 {
		next := c.threads[c.index-1].at
		switch {
		case !at.IsZero() && at.Before(next):
			return at, ""
		case c.scopeTime.IsZero() && !c.nextTask.IsZero() && c.nextTask.Before(next):
			return c.nextTask, turns.TimeNotAfter
		case c.scopeTime.IsZero() && !next.IsZero():
			return next, turns.TimeNotAfter
		}
		at = time.Time{}
	}
	switch {
	case !at.IsZero():
		return at, ""
	case !c.scopeTime.IsZero():
		return c.scopeTime, turns.TimeNotBefore
	case !own.IsZero():
		return own, turns.TimeNotBefore
	}
	return time.Time{}, ""
}

// finish ends the response that is being read: it emits its turn.
func (c *codexReader) finish() {
	c.responseEnded = false
	if len(c.response.Parts) == 0 {
		return
	}
	r := c.response
	c.response = turns.Message{Role: turns.Assistant}
	if c.history.is == historyGiven {
		c.messages = append(append(c.messages, r), c.later...)
		c.later = nil
		return
	}
	c.turn(&r)
}

func (c *codexReader) turn(response *turns.Message) {
	t := c.openThread()
	if c.anchor.key == "" {
		c.anchor = c.otherAnchor
	}
	id := turns.DeriveID(t.at, "codex turn", t.id, c.anchor.scope, c.anchor.key, strconv.Itoa(c.anchor.n))
	a := &transcript.Append{Session: t.session, ID: id, Parent: c.parent, Messages: values.NonNil(c.messages), Response: response, Usage: c.usage}
	if response != nil && a.Usage == nil {
		a.Usage, c.details = c.counts.takeAgain()
	}
	a.Time = c.responseTime
	set := c.inForce
	if response != nil {
		a.Model, set = c.responseModel, c.responseSettings
	}
	a.Meta = values.WithProgramMessages(values.WithTimeBound(values.WithUsage(c.changedSettings(set), c.details), c.responseBound), c.program)
	t.tip, c.parent, c.at = id, id, turns.Ref{Session: t.session, Turn: id}
	c.anchor, c.messages, c.given, c.program = codexAnchor{}, c.later, 0, nil
	c.later, c.otherAnchor, c.laterAnchor = nil, c.laterAnchor, codexAnchor{}
	c.usage, c.details = nil, turns.UsageDetails{}
	if !c.emitted() {
		return
	}
	if c.uncounted = a; a.Usage != nil || response == nil {
		c.flushUncounted()
	}
}

// flushUncounted emits the turn that waits for its usage.
func (c *codexReader) flushUncounted() {
	if c.uncounted == nil {
		return
	}
	if a := c.uncounted; a.Usage == nil {
		var d turns.UsageDetails
		a.Usage, d = c.counts.takeAgain()
		a.Meta = values.WithUsage(a.Meta, d)
	}
	c.Step(transcript.Step{Append: c.uncounted})
	c.uncounted = nil
}

// compaction reads a compaction. The replacement stands for all before it, also for outputs
// that no response has seen. A file that begins with one was written anew, without what it
// replaced: the compaction is of what the session has.
func (c *codexReader) compaction(line int, r *codexRecord) error {
	var k codexCompacted
	if err := values.Decode(r.Payload, &k); err != nil {
		return err
	}
	replacement, program := c.replacement(line, &k)
	if c.history.is == historyGiven {
		c.finish()
		if k.Replacement == nil {
			replacement = []turns.Message{turns.TextMessage(turns.User, k.Message)}
		}
		c.messages, c.program = replacement, program
		return nil
	}
	c.finish()
	c.responseTime, c.responseBound = c.timeOf(values.ParseTime(turns.RawText(r.Time)))
	if len(c.messages) > 0 {
		c.turn(nil)
	}
	t := c.openThread()
	key := codexAnchor{scope: "compaction", key: contentKey(r.Payload)}
	key.n, c.equals[key] = c.equals[key], c.equals[key]+1
	out := &transcript.Compaction{Session: t.session, Parent: c.parent, Trigger: "threshold", Summary: k.Message, Replacement: replacement}
	out.ID = turns.DeriveID(t.at, "codex compaction", t.id, key.key, strconv.Itoa(key.n))
	if c.parent.IsZero() {
		c.replaced = replacedPrompts(&k)
		c.Loss.Add(line, "skipped", "the file begins with a compaction: what that replaced is not in it; the ledger has it if it was imported before", t.id)
		c.parent = out.ID
	}
	var details turns.UsageDetails
	if out.Usage, details = c.counts.ofCompaction(k.ResponseID); out.Usage != nil {
		out.Model = c.model
	}
	out.Time, out.Meta = c.responseTime, values.WithTimeBound(values.WithUsage(nil, details), c.responseBound)
	t.tip, c.at, c.compacted = out.ID, turns.Ref{Session: t.session, Turn: out.ID}, key.key
	if c.emitted() {
		c.Step(transcript.Step{Compaction: out})
	}
	return nil
}

// replacedPrompts are the prompts that a compaction holds, by their content. In a file that
// begins with it, nobody knows how many of them began turns of the task that goes on: Codex
// writes a file anew within a task. So a prompt of the same words is named by its time, too, and
// not taken for one of them.
func replacedPrompts(k *codexCompacted) map[string]bool {
	out := make(map[string]bool)
	for _, raw := range k.Replacement {
		var it codexItem
		if values.Decode(raw, &it) == nil && it.Type == "message" && it.Role == "user" {
			out[contentKey(raw)] = true
		}
	}
	return out
}

// replacement returns the messages of a compaction, and which of them a program wrote.
func (c *codexReader) replacement(line int, k *codexCompacted) (out []turns.Message, program []int) {
	for i := range k.Replacement {
		var it codexItem
		if err := values.Decode(k.Replacement[i], &it); err != nil {
			c.Loss.Add(line, "skipped", "an item of a replacement that can't be read: "+err.Error(), "")
			continue
		}
		m, ok := c.message(line, &it)
		switch {
		case ok && it.isPrograms():
			program = append(program, len(out))
		case ok:
		case it.isSummary():
			m = turns.Message{Role: turns.Assistant, Parts: []turns.Part{providersOwn(&it, k.Replacement[i])}}
			c.Loss.Count("repaired", "summaries that only the provider can read are kept as reasoning")
		default:
			c.Loss.Add(line, "skipped", "an item of a replacement that is no message: "+it.Type, "")
			continue
		}
		out = append(out, m)
	}
	return out, program
}

// codexPoint is where a rollback goes back to: before a prompt.
type codexPoint struct {
	at      turns.Ref
	parent  turns.ID
	kept    []turns.Message // of the prompt's turn: those before it that stay
	given   int             // of kept
	program []int           // of kept
}

// prompt notes the place before a prompt. What Codex tells of the surroundings just before it
// is taken back with it, but for the first.
func (c *codexReader) prompt() {
	n := len(c.messages)
	for len(c.points) > 0 && n > 0 && (c.messages[n-1].Role == turns.System || slices.Contains(c.program, n-1)) {
		n--
	}
	k, _ := slices.BinarySearch(c.program, n)
	c.points = append(c.points, codexPoint{at: c.at, parent: c.parent, kept: c.messages[:n:n], given: min(c.given, n), program: c.program[:k:k]})
}

// rollBack takes back the newest prompts and what followed each. A compaction since then is
// taken back, too.
func (c *codexReader) rollBack(line int, prompts uint64) {
	if prompts == 0 {
		return
	}
	c.finish()
	if prompts > uint64(len(c.points)) {
		c.Loss.Add(line, "repaired", "a rollback of more prompts than the file has goes back to before the first", strconv.FormatUint(prompts, 10))
		prompts = uint64(len(c.points))
	}
	if prompts == 0 {
		return
	}
	if c.anchor.key != "" { // what waits for an answer
		c.turn(nil)
	}
	c.flushUncounted()
	i := len(c.points) - int(prompts)
	p := c.points[i]
	c.points = c.points[:i]
	if n := len(p.kept) - p.given; n > 0 && c.history.is != historyGiven {
		c.Loss.AddMany(n, line, "stored", "messages before a prompt that was taken back stay, and are in both branches", "")
	}
	c.at, c.parent, c.messages, c.given, c.program = p.at, p.parent, p.kept, p.given, p.program
	c.anchor, c.otherAnchor = codexAnchor{}, codexAnchor{}
}
