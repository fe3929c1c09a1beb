package interchange

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"nexus/turns"
)

// codexReader is the fold over the lines of a rollout.
type codexReader struct {
	Reader
	opt Options

	metas       []codexMeta   // headers: this rollout's, its parent's, and so on up
	threads     []codexThread // of those headers that lead up from this rollout's
	threadIndex int           // the thread whose history is being read; 0: this rollout's own
	itemsBegun  bool          // items were read
	forkedAt    turns.Ref     // where the thread before that one was forked

	messages      []turns.Message
	response      turns.Message // in the making
	calls         callIDs
	usage         *turns.Usage
	details       turns.UsageDetails // of usage
	uncounted     *Append            // emitted when its usage is known, or when what follows it begins
	countedTokens uint64             // tokens of the session when usage was last counted
	model         string             // in force now
	responseModel string             // in force when the response began
	responseTime  time.Time          // of the response's first item
	taskEnded     bool               // no item came after the end of a task

	inForce          map[string]turns.Raw // settings in force now
	responseSettings map[string]turns.Raw // when the response began
	recordedSettings map[string]turns.Raw // in the meta of turns
}

// codexThread is a thread of Codex, which is a session of the ledger.
type codexThread struct {
	id      string // Codex's
	session turns.ID
	at      time.Time // in the id
	opened  bool
	n       int      // turns and compactions so far
	tip     turns.ID // last turn
}

// Codex reads a rollout of Codex CLI (JSON lines) as steps. It reads the response
// items, which the model saw. A model's run of reasoning, texts and calls is the
// response of a turn; an output or a message ends it. Events are copies for the
// terminal, except the token counts, which become the turns' usage. A compacted
// line replaces the history.
//
// Items have no ids. The id of a turn is derived from its session's id and its
// place in the session. So the history that a forked agent's rollout copies from
// its parent, with new times, has the parent's ids. The fork is at the turn that
// spawned the agent. A fork of a fork copies both histories. The id of a session is
// derived from the thread's id, which holds its time.
//
// The meta of a task's first turn holds the settings (effort, sandbox, …) that the
// task changed.
//
// A turn is emitted when what follows it is read, when its usage is read, or at the
// end of a task. Only what was not emitted yet is in memory. Codex writes the usage
// after the last item of a response. Where items came after it, the response of a
// shorter copy would have fewer parts.
func Codex(r io.Reader, opt Options) *Reader {
	c := &codexReader{opt: opt, response: turns.Message{Role: turns.Assistant}}
	c.readLines(r, opt, lineFormat{"codex rollout", c.record, c.end})
	c.complete, c.repeats = c.completeTurns, true
	return &c.Reader
}

// end emits what is complete at the end of the file. A response whose usage is known
// is, as is the last one of a task. Others may get further items or their usage.
func (c *codexReader) end(line int) {
	if c.opt.Final || c.taskEnded || c.usage != nil {
		c.finish()
	}
	if c.opt.Final && len(c.messages) > 0 {
		c.turn(nil)
	}
	if c.opt.Final || c.taskEnded {
		c.flushUncounted()
	}
	if c.uncounted != nil || c.emitted() && (len(c.messages) > 0 || len(c.response.Parts) > 0) {
		c.loss.unfinished(1)
	}
	if c.opt.Final && c.threadIndex > 0 && !c.opt.Copied {
		c.loss.add(line, "skipped", "the end of the history that was copied from the parent was not found; nothing of it is stored as this session's own", c.threads[0].id)
	}
}

// completeTurns returns the steps that the end of the file would add. c stays as it is: a
// further item may still join the response.
func (c *codexReader) completeTurns() []Step {
	if len(c.threads) == 0 {
		return nil
	}
	d := *c
	d.Reader = Reader{}
	d.opt.Final = false
	d.threads = slices.Clone(c.threads)
	if c.uncounted != nil {
		a := *c.uncounted
		d.uncounted = &a
	}
	d.end(0)
	return d.queue
}

// record reads one record. The first is the session's header.
func (c *codexReader) record(line int, b []byte) error {
	var r codexRecord
	err := decodeLoose(b, &r)
	if err == nil {
		if len(c.metas) == 0 && r.Type != "session_meta" {
			return fmt.Errorf("%w: it does not begin with a session", turns.ErrMalformed)
		}
		err = c.readPayload(line, &r)
	}
	if err != nil {
		c.loss.add(line, "skipped", "a record that can't be read: "+err.Error(), "")
	}
	return nil
}

func (c *codexReader) readPayload(line int, r *codexRecord) error {
	switch r.Type {
	case "session_meta":
		return c.meta(line, r)
	case "turn_context":
		return c.settings(line, r)
	case "response_item":
		var it codexItem
		if err := decodeLoose(r.Payload, &it); err != nil {
			return err
		}
		c.endHeaders(line)
		c.item(line, r, &it)
	case "event_msg":
		return c.event(line, r)
	case "compacted":
		c.endHeaders(line)
		return c.compacted(line, r)
	default:
		c.loss.count("skipped", "records of type "+strconv.Quote(r.Type))
	}
	return nil
}

// settings reads the settings of a task.
func (c *codexReader) settings(line int, r *codexRecord) error {
	var set map[string]turns.Raw
	if err := decodeLoose(r.Payload, &set); err != nil {
		return err
	}
	if s, ok := set["model"].Text(); ok && s != "" {
		c.model = s
	}
	delete(set, "model")
	if n := len(r.Payload); n > maxMeta {
		c.loss.add(line, "skipped", "settings of a task of "+plural(n, "byte")+", more than meta holds", "")
		return nil
	}
	c.inForce = set
	return nil
}

// changedSettings returns the settings of set that differ from those of the turn before,
// as a turn's meta. One that is gone is null.
func (c *codexReader) changedSettings(set map[string]turns.Raw) turns.Raw {
	diff := make(map[string]turns.Raw)
	for k, v := range set {
		if !bytes.Equal(v, c.recordedSettings[k]) {
			diff[k] = v
		}
	}
	for k := range c.recordedSettings {
		if set[k] == nil {
			diff[k] = turns.Raw("null")
		}
	}
	c.recordedSettings = set
	if len(diff) == 0 {
		return nil
	}
	return encoded(map[string]map[string]turns.Raw{"turn_context": diff})
}

// meta reads a session's header. The headers of the parent, of the parent's parent and so
// on follow that of a forked agent, then the history that was copied.
func (c *codexReader) meta(line int, r *codexRecord) error {
	var m codexMeta
	if err := decodeLoose(r.Payload, &m); err != nil {
		return err
	}
	m.header(r.Payload, line, &c.loss)
	c.metas = append(c.metas, m)
	switch n := len(c.metas); {
	case n == 1:
		c.threads = append(c.threads, newCodexThread(&m))
		if m.Base.Thread != "" {
			c.loss.add(line, "repaired", "the history before this file is in another; what this one holds is a session of its own, whose meta names the other", m.Base.Thread)
		}
		if m.ForkedFrom == "" {
			c.open(&c.threads[0], &m)
		}
	case !c.itemsBegun && len(c.threads) == n-1 && c.metas[n-2].ForkedFrom == m.ID && m.ID != "":
		c.threads = append(c.threads, newCodexThread(&m))
		c.threadIndex = n - 1
	default:
		c.loss.add(line, "repaired", "a further session header; what follows it is this session's own", m.ID)
	}
	return nil
}

// endHeaders ends the headers. If one is missing between a fork and its history, nothing
// says whose turns the history holds.
func (c *codexReader) endHeaders(line int) {
	if c.itemsBegun {
		return
	}
	c.itemsBegun = true
	if from := c.metas[len(c.threads)-1].ForkedFrom; from != "" {
		c.loss.add(line, "repaired", "the header of a session that was forked is not in the file; the history copied from there is this session's own", from)
		c.threads, c.threadIndex = c.threads[:1], 0
	}
}

func newCodexThread(m *codexMeta) codexThread {
	t := codexThread{id: m.ID, at: parseTime(turns.RawText(m.Time))}
	if u, err := uuid.Parse(m.ID); err == nil && u.Version() == 7 {
		sec, nsec := u.Time().UnixTime()
		t.at = time.Unix(sec, nsec).UTC().Truncate(time.Millisecond)
	}
	if m.Base.Thread == m.ID && m.ID != "" { // further files of a thread count their turns from 0 too
		t.id += "@" + strconv.FormatUint(m.Base.Offset, 10) + " " + m.Time
	}
	t.session = turns.DeriveID(t.at, "codex", t.id)
	return t
}

func (c *codexReader) open(t *codexThread, m *codexMeta) {
	t.opened = true
	o := &Open{ID: t.session, Time: t.at, Meta: m.raw(), Exported: exportedFrom(m.ID, m.Mark)}
	if s := m.Instructions.Text; s != "" {
		o.System = []turns.Section{{Content: s}}
	}
	if up := m.spawner(); up != "" && m.ForkedFrom == "" {
		o.SpawnedBy = turns.Ref{Session: newCodexThread(&codexMeta{ID: up}).session}
	}
	c.step(Step{Open: o})
}

// emitted reports whether what is being read is emitted.
func (c *codexReader) emitted() bool { return c.threadIndex == 0 || c.opt.Copied }

// openThread returns the thread that the next turn belongs to. It emits its session
// first: a fork at the last turn of the history that was copied.
func (c *codexReader) openThread() *codexThread {
	c.flushUncounted()
	t, m := &c.threads[c.threadIndex], &c.metas[c.threadIndex]
	switch {
	case t.opened:
	case !c.forkedAt.IsZero():
		t.opened, t.tip = true, c.forkedAt.Turn
		if c.emitted() {
			c.step(Step{Fork: &Fork{ID: t.session, At: c.forkedAt, Time: t.at, Meta: m.raw()}})
		}
	case c.emitted():
		c.open(t, m)
	}
	return t
}

// event reads an event. One that starts a task of the forked agent itself ends the history
// that was copied: the ids of tasks hold their time.
func (c *codexReader) event(line int, r *codexRecord) error {
	var e codexEvent
	if err := decodeLoose(r.Payload, &e); err != nil {
		return err
	}
	switch e.Type {
	case "token_count":
		c.addUsage(line, &e)
		return nil
	case "task_started":
		if u, err := uuid.Parse(e.Turn); err == nil && u.Version() == 7 {
			at := time.Unix(u.Time().UnixTime())
			for c.threadIndex > 0 && !at.Before(c.threads[c.threadIndex-1].at) {
				c.endCopiedHistory()
			}
		}
	case "task_complete", "turn_aborted":
		c.taskEnded = true
		if e.Type == "turn_aborted" {
			c.loss.count("skipped", "notes that a task was interrupted")
			return nil
		}
	case "thread_name_updated":
		for i := range c.threads {
			if c.metas[i].ID == e.Thread {
				c.names.set(c.threads[i].session, e.Name, true)
				return nil
			}
		}
	}
	c.loss.count("skipped", "copies for the terminal: "+e.Type)
	return nil
}

// endCopiedHistory ends a history that was copied. The messages after its last response
// belong to the fork: there Codex tells the new agent its task.
func (c *codexReader) endCopiedHistory() {
	c.finish()
	if t := &c.threads[c.threadIndex]; !t.tip.IsZero() { // else where it was forked itself
		c.forkedAt = turns.Ref{Session: t.session, Turn: t.tip}
	}
	c.threadIndex--
}

func (c *codexReader) addUsage(line int, e *codexEvent) {
	if e.Info == nil || e.Info.Total.Total == c.countedTokens {
		return // null, or a repetition
	}
	c.countedTokens = e.Info.Total.Total
	u := e.Info.Last
	if u.Input+u.Output == 0 {
		return
	}
	usage := &turns.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheRead: u.Cached}
	details := turns.UsageDetails{Reasoning: u.Reasoning}
	switch {
	case len(c.response.Parts) > 0:
		c.usage, c.details = usage, details
	case c.uncounted != nil: // newer versions count after the tools have run
		c.uncounted.Usage, c.uncounted.Meta = usage, withUsage(c.uncounted.Meta, details)
		c.flushUncounted()
	case c.emitted():
		c.loss.addUsage(line, "usage of a call whose response is not in the file", usage)
	}
}

// flushUncounted emits the turn that waits for its usage.
func (c *codexReader) flushUncounted() {
	if c.uncounted != nil {
		c.step(Step{Append: c.uncounted})
		c.uncounted = nil
	}
}

// finish emits the turn whose response is being read.
func (c *codexReader) finish() {
	if len(c.response.Parts) == 0 {
		return
	}
	r := c.response
	c.turn(&r)
	c.response = turns.Message{Role: turns.Assistant}
}

func (c *codexReader) turn(response *turns.Message) {
	t := c.openThread()
	a := &Append{Session: t.session, ID: t.next("turn"), Parent: t.tip, Messages: nonNil(c.messages), Response: response, Usage: c.usage, Time: c.responseTime}
	set := c.inForce
	if response != nil {
		a.Model, set = c.responseModel, c.responseSettings
	}
	a.Meta = withUsage(c.changedSettings(set), c.details)
	t.tip = a.ID
	c.messages, c.usage, c.details = nil, nil, turns.UsageDetails{}
	if c.threadIndex > 0 {
		a.Time = time.Time{} // the copy is stamped with the time of the fork
		if !c.opt.Copied {
			return
		}
	}
	if c.uncounted = a; a.Usage != nil || response == nil {
		c.flushUncounted()
	}
}

// next returns the id of the thread's next turn or compaction.
func (t *codexThread) next(what string) turns.ID {
	id := turns.DeriveID(t.at, "codex "+what, t.id, strconv.Itoa(t.n))
	t.n++
	return id
}

// compacted reads a compaction. The replacement stands for all before it, also for outputs
// that no response has seen.
func (c *codexReader) compacted(line int, r *codexRecord) error {
	var k codexCompacted
	if err := decodeLoose(r.Payload, &k); err != nil {
		return err
	}
	c.finish()
	c.responseTime = parseTime(turns.RawText(r.Time))
	if len(c.messages) > 0 {
		c.turn(nil)
	}
	t := c.openThread()
	if t.tip.IsZero() {
		c.loss.add(line, "skipped", "a compaction before the first turn", "")
		return nil
	}
	out := &Compaction{Session: t.session, ID: t.next("compaction"), Parent: t.tip, Time: c.responseTime, Trigger: "threshold", Summary: k.Message}
	for i := range k.Replacement {
		m, ok := c.message(line, &k.Replacement[i])
		if !ok {
			c.loss.add(line, "skipped", "an item of a replacement that is no message: "+k.Replacement[i].Type, "")
			continue
		}
		out.Replacement = append(out.Replacement, m)
	}
	if c.threadIndex > 0 {
		out.Time = time.Time{}
		if !c.opt.Copied {
			return nil
		}
	}
	c.step(Step{Compaction: out})
	return nil
}

// SniffCodex reports whether head, the first bytes of a file, looks like a
// Codex rollout: its first line is a session_meta record.
func SniffCodex(head []byte) bool {
	line, _, whole := bytes.Cut(head, []byte("\n"))
	if !whole { // the header holds the instructions, and can be long
		return bytes.Contains(line, []byte(`"type":"session_meta"`)) && bytes.HasPrefix(line, []byte(`{"timestamp":`))
	}
	var r codexRecord
	return decodeLoose(line, &r) == nil && r.Type == "session_meta"
}
