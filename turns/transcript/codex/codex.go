package codex

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
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

// codexReader is the fold over the lines of a rollout.
type codexReader struct {
	transcript.Source
	opt transcript.Options

	metas   []codexMeta   // headers: this rollout's, its parent's, and so on up
	threads []codexThread // of those headers
	index   int           // the thread whose history is being read; 0: this rollout's own
	begun   bool          // the headers have ended
	history codexHistory  // that was copied from the parent

	at     turns.Ref    // what the next turn follows; zero: nothing
	parent turns.ID     // the last turn before it; the compaction at, if the file has none
	points []codexPoint // where a rollback can go back to, oldest first

	scope     string              // the source's id of the task; "": none
	scopeTime time.Time           // in it
	nextTask  time.Time           // of the first task of a history, while what is before it is read
	compacted string              // names the last compaction; "": none
	replaced  map[string]bool     // prompts that the compaction replaced which the file begins with, by content, in the first task after it
	equals    map[codexAnchor]int // how many items with one name were anchors so far
	anchor    codexAnchor         // of the next turn; zero: none of its items was read
	messages  []turns.Message     // of the next turn
	given     int                 // of messages: those at the beginning that the parent gave
	program   []int               // of messages: those of the user's role that a program wrote
	later     []turns.Message     // outputs that were read within the response, and are of the turn after it

	laterAnchor codexAnchor // of the turn after the response, if nothing but later is its input
	otherAnchor codexAnchor // of the next turn, if anchor is zero

	response      turns.Message // in the making
	responseEnded bool          // what the model says next is another response
	calls         transcript.CallIDs
	counts        codexCounts
	usage         *turns.Usage       // of response
	details       turns.UsageDetails // of usage
	uncounted     *transcript.Append // emitted when its usage is known, or when what follows it begins
	model         string             // in force now
	responseModel string             // in force when the response began
	responseTime  time.Time          // of the response's first item, else of the last message
	responseBound turns.TimeBound    // of responseTime
	taskEnded     bool               // no item came after the end of a task

	inForce          map[string]turns.Raw // settings in force now
	responseSettings map[string]turns.Raw // when the response began
	recordedSettings map[string]turns.Raw // in the meta of turns
}

// codexThread is a thread of Codex. It is a session of the ledger, and another one for each
// branch after a rollback.
type codexThread struct {
	id      string    // Codex's
	at      time.Time // in the id
	root    turns.ID
	session turns.ID // root, or the newest branch; zero: not begun
	tip     turns.ID // the last turn or compaction of session
}

// Read reads a rollout of Codex CLI (JSON lines) as steps. It reads the response
// items, which the model saw. A model's run of reasoning, texts and calls is the
// response of a turn; an output, a message, its usage or the end of the task ends it.
// Events are copies for the terminal, but for the token counts, which become the turns'
// usage, the bounds of tasks, and rollbacks. A compacted line replaces the history.
//
// The id of a turn is derived from its thread, its task and the first item of the turn: the
// item's own id, else the digest of its content, and how many like it began a turn of the
// task before. So it does not depend on what else the file holds, and the history that the
// rollout of a forked agent copies, with new times, has the ids that it has in the parent's.
// See [codexHistory]. The id of a session is derived from the thread's id, which holds its
// time.
//
// A rollback goes back to before the prompts that it takes back, and the turns after it
// are a fork there; those that were taken back stay.
//
// The meta of a task's first turn holds the settings (effort, sandbox, …) that the
// task changed.
//
// A turn is emitted when what follows it is read, when its usage is read, or at the
// end of a task. Only what was not emitted yet is in memory.
func Read(r io.Reader, opt transcript.Options) *transcript.Reader {
	c := &codexReader{opt: opt, response: turns.Message{Role: turns.Assistant}, equals: make(map[codexAnchor]int)}
	c.ReadLines(r, opt, transcript.LineFormat{Name: "codex rollout", Object: c.record, End: c.end, Begins: []string{`{"timestamp":`, `{"type":`}})
	c.Complete, c.Repeats = c.completeTurns, true
	return c.Reader()
}

// end emits what is complete at the end of the file. A response whose usage is known
// is, as is the last one of a task. Others may get further items or their usage.
func (c *codexReader) end(line int) {
	if c.opt.Final && c.history.is == historyAsked {
		c.settleHistory(historyNone)
	}
	if c.opt.Final || c.taskEnded || c.usage != nil {
		c.finish()
	}
	if c.opt.Final && (c.anchor.key != "" || len(c.messages) > 0 && c.otherAnchor.key != "") && c.index == 0 {
		c.turn(nil)
	}
	if c.opt.Final || c.taskEnded {
		c.flushUncounted()
	}
	if c.uncounted != nil || c.emitted() && (len(c.messages) > 0 || len(c.response.Parts) > 0) {
		c.Loss.Unfinished(1)
	}
	c.counts.flush(&c.Loss)
	if !c.opt.Final {
		return
	}
	switch c.history.is {
	case historyHeld, historyWhole, historyGiven:
		if !c.opt.Copied || c.history.is != historyWhole {
			c.Loss.Add(line, "skipped", "the end of the history that was copied from the parent was not found; nothing of it is stored as this session's own", c.threads[0].id)
		}
	default:
		if len(c.threads) > 0 {
			c.openThread() // a fork that did nothing, or a rollback at the end
		}
	}
}

// completeTurns returns the steps that the end of the file would add. c stays as it is: a
// further item may still join the response.
func (c *codexReader) completeTurns() []transcript.Step {
	if len(c.threads) == 0 {
		return nil
	}
	d := *c
	d.Source = transcript.Source{}
	d.opt.Final = false
	d.threads = slices.Clone(c.threads)
	if c.uncounted != nil {
		a := *c.uncounted
		d.uncounted = &a
	}
	d.end(0)
	return d.TakeSteps()
}

// record reads one record. The first is the session's header.
func (c *codexReader) record(line int, b []byte) error {
	var r codexRecord
	err := values.Decode(b, &r)
	if err == nil {
		if len(c.metas) == 0 && r.Type != "session_meta" {
			if err := c.lostHeader(line); err != nil {
				return err
			}
		}
		err = c.place(line, &r)
	}
	if err != nil {
		c.Loss.Add(line, "skipped", "a record that can't be read: "+err.Error(), "")
	}
	return nil
}

// fileName is the name of a rollout, which has the id of its thread.
var fileName = regexp.MustCompile(`^rollout-.*-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl`)

// lostHeader begins the session of a rollout whose header is torn: by the name of its file.
func (c *codexReader) lostHeader(line int) error {
	m := fileName.FindStringSubmatch(c.opt.Name)
	if m == nil {
		return fmt.Errorf("%w: it does not begin with a session", turns.ErrMalformed)
	}
	c.Loss.Add(line, "repaired", "the session's header is lost: its id is that in the file's name, and what else the header said is unknown", m[1])
	return c.meta(line, &codexRecord{Type: "session_meta", Payload: jsontext.Value(values.Encoded(map[string]string{"id": m[1]}))})
}

func (c *codexReader) readPayload(line int, r *codexRecord) error {
	switch r.Type {
	case "turn_context":
		return c.settings(line, r)
	case "response_item":
		var it codexItem
		if err := values.Decode(r.Payload, &it); err != nil {
			return err
		}
		c.item(line, r, &it)
	case "inter_agent_communication": // what later versions write as an agent_message
		var it codexItem
		if err := values.Decode(r.Payload, &it); err != nil {
			return err
		}
		it.Type = "agent_message"
		c.item(line, r, &it)
	case "event_msg":
		return c.event(line, r)
	case "compacted":
		return c.compaction(line, r)
	case "token_usage_record":
		return c.usageRecord(line, r)
	case "rollout_reference":
		c.Loss.Add(line, "skipped", "history that is in another file, which the rollout names", "")
	case "world_state", "inter_agent_communication_metadata":
		c.Loss.Count("skipped", "notes of Codex for itself: "+r.Type)
	default:
		c.Loss.Count("skipped", "records of type "+strconv.Quote(r.Type))
	}
	return nil
}

// settings reads the settings of a task.
func (c *codexReader) settings(line int, r *codexRecord) error {
	var set map[string]turns.Raw
	if err := values.Decode(r.Payload, &set); err != nil {
		return err
	}
	if id, ok := set["turn_id"].Text(); ok {
		c.task(id)
	}
	if c.history.is == historyGiven {
		return nil
	}
	if s, ok := set["model"].Text(); ok && s != "" {
		c.model = s
	}
	delete(set, "model")
	if n := len(r.Payload); n > values.MaxMeta {
		c.Loss.Add(line, "skipped", "settings of a task of "+values.Plural(n, "byte")+", more than meta holds", "")
		return nil
	}
	c.inForce = set
	return nil
}

// task begins the task id, if it is not the one that is being read.
func (c *codexReader) task(id string) {
	if id == "" || id == c.scope {
		return
	}
	if c.scope != "" {
		c.replaced = nil
	}
	c.scope, c.scopeTime = id, timeInID(id)
	c.responseEnded = len(c.response.Parts) > 0
}

// timeInID returns the time in a UUID of version 7, zero for any other id.
func timeInID(id string) time.Time {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return time.Time{}
	}
	return time.Unix(u.Time().UnixTime()).UTC().Truncate(time.Millisecond)
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
	return values.Encoded(map[string]map[string]turns.Raw{"turn_context": diff})
}

// meta reads a session's header. The headers of the parent, of the parent's parent and so
// on follow that of a forked agent, then the history that was copied.
func (c *codexReader) meta(line int, r *codexRecord) error {
	var m codexMeta
	if err := values.Decode(r.Payload, &m); err != nil {
		return err
	}
	switch n := len(c.metas); {
	case n == 0:
		if m.Base.Thread != "" {
			c.Loss.Add(line, "repaired", "the history before this file is in another; what this one holds is a session of its own, whose meta names the other", m.Base.Thread)
		}
	case !c.begun && m.ID != "" && c.metas[n-1].before() == m.ID:
	case m.ID != "" && m.ID == c.metas[0].ID:
		c.Loss.Count("skipped", "headers that were written again, when the session was resumed")
		return nil
	default:
		c.Loss.Add(line, "repaired", "a further session header; what follows it is this session's own", m.ID)
		return nil
	}
	m.header(r.Payload, line, &c.Loss)
	c.metas, c.threads = append(c.metas, m), append(c.threads, newCodexThread(&m))
	if len(c.metas) == 1 && m.before() == "" {
		c.openThread()
	}
	return nil
}

func newCodexThread(m *codexMeta) codexThread {
	t := codexThread{id: m.ID, at: timeInID(m.ID)}
	if t.at.IsZero() {
		t.at = values.ParseTime(turns.RawText(m.Time))
	}
	if m.Base.Thread == m.ID && m.ID != "" {
		t.id += "@" + strconv.FormatUint(m.Base.Offset, 10) + " " + m.Time
	}
	t.root = turns.DeriveID(t.at, "codex", t.id)
	return t
}

// event reads an event.
func (c *codexReader) event(line int, r *codexRecord) error {
	var e codexEvent
	if err := values.Decode(r.Payload, &e); err != nil {
		return err
	}
	switch e.Type {
	case "token_count":
		if c.history.is != historyGiven {
			c.tokenCount(line, &e)
		}
		return nil
	case "thread_rolled_back":
		c.rollBack(line, e.Turns)
		return nil
	case "task_started", "turn_started":
		c.task(e.Turn)
		c.responseEnded = len(c.response.Parts) > 0
	case "task_complete", "turn_complete", "turn_aborted":
		c.taskEnded, c.responseEnded = true, len(c.response.Parts) > 0
		if e.Type == "turn_aborted" {
			c.Loss.Count("skipped", "notes that a task was interrupted")
			return nil
		}
	case "thread_name_updated":
		for i := range c.threads {
			if c.metas[i].ID == e.Thread {
				c.Names.Set(c.threads[i].root, e.Name, true)
				return nil
			}
		}
	case "model_reroute":
		if e.Model != "" {
			c.model = e.Model // until the next task
		}
		return nil
	}
	if isCodexCopy(e.Type) {
		c.Loss.Count("skipped", "copies for the terminal: "+e.Type)
		return nil
	}
	c.Loss.Count("skipped", "events of a type that is not known: "+strconv.Quote(e.Type))
	return nil
}

// codexCopies are the events, by the beginnings of their types, that tell the terminal what
// the items hold, or what the model does not see.
var codexCopies = []string{
	"agent_message", "agent_reasoning", "apply_patch_approval", "background_event", "collab_", "context_compacted", "deprecation_notice", "dynamic_tool_call_", "elicitation_",
	"entered_review_mode", "error", "exec_", "exited_review_mode", "guardian_", "hook_", "image_generation_", "item_", "mcp_", "model_verification", "patch_apply_", "plan_", "raw_response_item",
	"request_permissions", "request_user_input", "session_configured", "skills_update_available", "stream_error", "sub_agent_activity", "task_", "terminal_interaction", "thread_goal_updated",
	"thread_name_updated", "thread_settings_applied", "turn_", "undo_", "user_message", "view_image_tool_call", "warning", "web_search_",
}

func isCodexCopy(event string) bool {
	return slices.ContainsFunc(codexCopies, func(s string) bool { return strings.HasPrefix(event, s) })
}

// Sniff reports whether head, the first bytes of a file, looks like a
// Codex rollout: its first line is a session_meta record.
func Sniff(head []byte) bool {
	line, _, whole := bytes.Cut(head, []byte("\n"))
	if !whole { // the header holds the instructions, and can be long
		return bytes.Contains(line, []byte(`"type":"session_meta"`)) && bytes.HasPrefix(line, []byte(`{"timestamp":`))
	}
	var r codexRecord
	if values.Decode(line, &r) == nil {
		return r.Type == "session_meta"
	}
	if !bytes.Contains(line, []byte(`"session_meta"`)) { // a header that is torn
		return false
	}
	second, _, _ := bytes.Cut(head[len(line)+1:], []byte("\n"))
	return values.Decode(second, &r) == nil && r.Time != "" && len(r.Payload) > 0
}

// Format is the format of Codex's rollouts.
func Format() transcript.Format {
	return transcript.Format{
		Name: "codex", Version: 2, Sniff: Sniff, Open: Read, Lines: Read,
		Write: func(s transcript.WrittenSession) transcript.Writer { return &codexWriter{s: s, now: s.Time} },
	}
}
