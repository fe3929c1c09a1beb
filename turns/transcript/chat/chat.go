package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"nexus/turns/transcript/otlp"
)

// chatReader reads conversations.
type chatReader struct {
	transcript.Source
	dec         *jsontext.Decoder
	opt         transcript.Options
	form        Form           // zero: detected for each conversation
	index       int            // conversations so far
	sameContent map[string]int // conversations so far by their whole content

	withID map[string]map[[sha256.Size]byte]bool // messages of the first conversation with an id

	histories map[string]*otelHistory   // read from spans
	order     []*otelHistory            // the same, first read first
	counted   map[otelSpanKey]*otelCall // usage of spans without messages

	list bool // inside a top-level list of objects

	answered map[prefixDigest]chatAt   // of conversations without an id: by the messages up to an answer, its turn
	ends     map[prefixDigest]*chatEnd // by all messages of a line
	tails    []*chatEnd                // those that may have a tail, oldest first
	logs     []*chatLog                // of all of these
}

// Read reads conversations as chat JSON: messages as they stand in
// requests to OpenAI (chat completions), to Anthropic, or in OpenTelemetry's
// GenAI attributes. A file is one or more JSON values, lines or not. Each is
//
//   - a list of messages, which is one conversation;
//   - an object with messages or traj, which is one too: its system, tools and
//     model are taken, what else it holds is kept in the session's meta;
//   - spans of OpenTelemetry: an export of OTLP (spans, or logs with events), a
//     span, or the attributes of one. Each is a call with its whole history; the
//     spans of one conversation (gen_ai.conversation.id, else the trace) are one
//     session, and forks where they differ;
//   - a list of such objects.
//
// Each assistant message ends a turn. A session's id comes from the conversation's
// own (id, conversation_id, session_id), with its first message where others may have
// that id (1), so that a longer copy adds what is new, and so does one without the oldest
// messages. Where it has none, or that of a task (task_id and trial), which
// others have too, the id comes from the whole content: a copy under another name is
// the same session, a longer one is another, unless it is in the same file: a log of
// requests, in which each has the messages of those before it, is one session that grows.
// Where such a request goes on otherwise, it is a fork. A turn's id comes from that of its response,
// else from its response and the message before it.
//
// The zero form is detected for each conversation.
//
// One conversation is held in memory at a time, and digests of the messages of some thousand.
func Read(r io.Reader, opt transcript.Options, form Form) *transcript.Reader {
	return newChatReader(r, opt, form).Reader()
}

func newChatReader(r io.Reader, opt transcript.Options, form Form) *chatReader {
	c := &chatReader{dec: jsontext.NewDecoder(r), opt: opt, form: form}
	c.Read = c.value
	return c
}

// value reads one JSON value: a conversation, or spans.
func (c *chatReader) value() error {
	raw, err := c.next()
	if err == io.EOF {
		if err := endTails(c.tails); err != nil {
			return err
		}
		c.tails, c.ends, c.answered, c.logs = nil, nil, nil, nil
		c.endSpans()
	}
	if err != nil {
		return err
	}
	spans, ok, err := otlp.Spans(raw)
	for i := range spans {
		c.span(spans[i], sha256.Sum256(raw))
	}
	if !ok && err == nil {
		var conv *conversation
		if conv, err = newConversation(raw); err == nil {
			err = c.conversation(conv)
		}
	}
	c.index++
	if errors.Is(err, turns.ErrMalformed) || errors.Is(err, turns.ErrUnsupported) || errors.Is(err, turns.ErrTooLarge) {
		if c.list { // one bad entry does not take the others with it
			c.Loss.Add(0, "skipped", "a conversation that can't be read: "+err.Error(), strconv.Itoa(c.index-1))
			return nil
		}
	}
	return err
}

// next returns the JSON of the next conversation: a top-level value, or an entry of a
// top-level list of objects that are no messages.
func (c *chatReader) next() (turns.Raw, error) {
	wrap := func(err error) error {
		if err == io.EOF {
			return err
		}
		var bad *jsontext.SyntacticError
		if errors.As(err, &bad) {
			return fmt.Errorf("read chat JSON: %w: %w", turns.ErrMalformed, err)
		}
		return fmt.Errorf("read chat JSON: %w", err)
	}
	if c.list && c.dec.PeekKind() == ']' {
		if _, err := c.dec.ReadToken(); err != nil {
			return nil, wrap(err)
		}
		c.list = false
	}
	if !c.list && c.dec.PeekKind() == '[' {
		if _, err := c.dec.ReadToken(); err != nil {
			return nil, wrap(err)
		}
		if c.dec.PeekKind() == ']' {
			_, err := c.dec.ReadToken()
			return turns.Raw("[]"), wrapNil(err, wrap)
		}
		first, err := c.dec.ReadValue()
		if err != nil {
			return nil, wrap(err)
		}
		first = bytes.Clone(first)
		if !isMessage(first) {
			c.list = true
			return turns.Raw(first), nil
		}
		all := append([]byte("["), first...)
		for c.dec.PeekKind() != ']' {
			v, err := c.dec.ReadValue()
			if err != nil {
				return nil, wrap(err)
			}
			all = append(append(all, ','), v...)
		}
		_, err = c.dec.ReadToken()
		return turns.Raw(append(all, ']')), wrapNil(err, wrap)
	}
	v, err := c.dec.ReadValue()
	if err != nil {
		return nil, wrap(err)
	}
	return turns.Raw(bytes.Clone(v)), nil
}

func wrapNil(err error, wrap func(error) error) error {
	if err == nil {
		return nil
	}
	return wrap(err)
}

// isMessage reports whether v is an object with a role.
func isMessage(v []byte) bool {
	var m struct {
		Role *string `json:"role"`
	}
	return values.Decode(v, &m) == nil && m.Role != nil
}

// conversation emits the steps of one conversation.
func (c *chatReader) conversation(v *conversation) error {
	system, ms, err := v.read(c.form)
	if err != nil {
		return err
	}
	v.stated = readChatMessages(v.messages)
	for _, l := range append(v.loss, v.dropped()...) {
		c.Loss.AddLoss(l)
	}
	for len(ms) > 0 && ms[0].Role == turns.System && system == nil {
		for _, p := range ms[0].Parts {
			system = append(system, turns.Section{Content: p.Content})
		}
		ms = ms[1:]
	}
	if len(ms) == 0 {
		c.Loss.Add(0, "skipped", "a conversation without messages", v.id)
		return nil
	}
	var log *chatLog
	var prefixes []prefixDigest
	if v.id == "" && !v.task {
		prefixes = prefixDigests(ms)
		if log = c.logOf(prefixes); log != nil {
			v.began = log.began
			return c.turns(v, log, prefixes, ms)
		}
	}
	key, err := c.key(v, system, ms)
	if err != nil {
		return err
	}
	session := turns.DeriveID(v.began, append([]string{"chat"}, key...)...)
	log = newChatLog(session, v.began)
	c.Step(transcript.Step{Open: &transcript.Open{ID: session, Time: v.created, Model: v.model, System: system, Tools: v.tools, Meta: v.meta()}})
	return c.turns(v, log, prefixes, ms)
}

// key returns what a conversation's id is derived from: its own id, with its first message
// if others may have that id; without an id the whole content. Equal conversations in one
// file are different sessions.
func (c *chatReader) key(v *conversation, system []turns.Section, ms []turns.Message) ([]string, error) {
	content := []any{ms[0]}
	if v.id == "" || v.task {
		content = []any{v.model, system, v.tools, ms}
	}
	b, err := turns.EncodeJSON(content)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	key := []string{v.id, hex.EncodeToString(sum[:])}
	if v.id != "" && !v.task {
		if isOwnID(v.id) && c.isFirstOrSame(v) {
			return key[:1], nil
		}
		return key, nil
	}
	if c.sameContent == nil {
		c.sameContent = make(map[string]int)
	}
	at := strings.Join(key, " ")
	c.sameContent[at]++
	return append(key, strconv.Itoa(c.sameContent[at])), nil
}

// isFirstOrSame reports whether a conversation is the first of the file with its id, or has
// a message in common with that one: it lost its oldest messages, or has more.
func (c *chatReader) isFirstOrSame(v *conversation) bool {
	if c.withID == nil {
		c.withID = make(map[string]map[[sha256.Size]byte]bool)
	}
	before, again := c.withID[v.id]
	has := make(map[[sha256.Size]byte]bool, len(v.stated))
	same := false
	for i := range v.stated {
		if m := &v.stated[i]; m.role != "system" && m.role != "developer" {
			has[m.digest] = true
			same = same || before[m.digest]
		}
	}
	if again && !same {
		return false
	}
	c.withID[v.id] = has
	return true
}

// turns emits the turns of a conversation. An assistant message ends a turn. prefixes are
// those of ms where other lines may have a part of it; nil: none has. The turns that an
// earlier line had are not emitted again.
func (c *chatReader) turns(v *conversation, log *chatLog, prefixes []prefixDigest, ms []turns.Message) error {
	session := log.session // that has the turn before
	called := make(map[string]bool)
	var parent turns.ID
	var messages []turns.Message
	var anchors chatAnchors
	answers := v.answers(ms)
	last, lastBound := v.created, turns.TimeNotBefore // the latest time that is known
	if v.began.IsZero() {
		lastBound = turns.TimeNotAfter // the conversation's may be that of its end
	}
	emit := func(response *turns.Message, stated, before *chatMessage) {
		name := anchors.name(stated, before)
		if response == nil {
			name += " pending"
		}
		if log.ids[turns.DeriveID(v.began, "chat turn", log.session.String(), name)] { // the same answer after another history
			name += " after " + parent.String()
		}
		a := &transcript.Append{ID: turns.DeriveID(v.began, "chat turn", log.session.String(), name), Parent: parent, Time: stated.time, Model: v.model, Messages: messages, Response: response, Usage: stated.usage,
			Branch: turns.DeriveID(v.began, "chat branch", log.session.String(), name)}
		if log.tips[session] != parent {
			f := &transcript.Fork{ID: a.Branch, At: turns.Ref{Session: session, Turn: parent}, Time: v.created, Meta: v.meta()}
			if session = f.ID; parent.IsZero() { // there is no turn to fork from
				c.Step(transcript.Step{Open: &transcript.Open{ID: f.ID, Time: f.Time, Model: v.model, Meta: f.Meta}})
			} else {
				c.Step(transcript.Step{Fork: f})
			}
		}
		a.Session = session
		if stated.model != "" {
			a.Model = stated.model
		}
		if before != nil && before.time.After(last) {
			last, lastBound = before.time, turns.TimeNotBefore
		}
		bound := turns.TimeBound("")
		if a.Time.IsZero() && !last.IsZero() {
			a.Time, bound = last, lastBound
		} else if a.Time.After(last) {
			last, lastBound = a.Time, turns.TimeNotBefore
		}
		var meta turns.Raw
		if stated.id != "" {
			meta = values.Encoded(map[string]string{"message_id": stated.id})
		}
		a.Meta = values.WithProgramMessages(values.WithTimeBound(values.WithUsage(meta, stated.details), bound), orphanMessages(messages))
		c.Step(transcript.Step{Append: a})
		log.tips[session], log.ids[a.ID] = a.ID, true
		parent, messages = a.ID, nil
	}
	var before *chatMessage
	n := 0
	for i := range ms {
		m := ms[i]
		if m.Role == turns.Assistant {
			for _, id := range m.Calls(nil) {
				called[id] = true
			}
			stated, at := answers[n], answers[n].before
			n++
			before = stated.chatMessage
			if prefixes == nil {
				emit(&m, stated.chatMessage, at)
				continue
			}
			if had := c.answered[prefixes[i]]; had.log == log {
				anchors.name(stated.chatMessage, at) // it counts
				session, parent, messages = had.ref.Session, had.ref.Turn, nil
				continue
			}
			emit(&m, stated.chatMessage, at)
			if c.answered == nil {
				c.answered = make(map[prefixDigest]chatAt)
			}
			c.answered[prefixes[i]] = chatAt{log, turns.Ref{Session: session, Turn: parent}}
			log.keys = append(log.keys, prefixes[i])
			continue
		}
		m.FinishReason = ""
		messages = append(messages, c.orphans(m, called, v.id)...)
	}
	tail := func() error {
		if !c.opt.Final {
			c.Loss.AddLoss(transcript.Loss{Kind: "skipped", Reason: "messages at the end without an answer; --final takes them", Count: len(messages), Record: v.id})
			return nil
		}
		b, err := turns.EncodeJSON(messages)
		if err != nil {
			return err
		}
		emit(nil, &chatMessage{digest: sha256.Sum256(b)}, before)
		return nil
	}
	if len(messages) == 0 {
		tail = nil
	}
	switch {
	case prefixes != nil:
		if err := c.use(log); err != nil {
			return err
		}
		if err := c.endLine(log, prefixes[len(prefixes)-1], tail); err != nil {
			return err
		}
	case tail != nil:
		if err := tail(); err != nil {
			return err
		}
	}
	if v.usage != nil {
		c.Loss.AddLoss(transcript.Loss{Kind: "skipped", Reason: "usage of a conversation as a whole, which no turn can hold", Record: v.id, Usage: v.usage})
	}
	return nil
}

// chatAnswer is a message of the assistant, and the one before it; nil: there is none.
type chatAnswer struct {
	*chatMessage
	before *chatMessage
}

// answers returns what the JSON of each assistant's message says, by their order in ms. If the
// JSON has others than ms, they are told from ms alone.
func (v *conversation) answers(ms []turns.Message) (out []chatAnswer) {
	for i := range v.stated {
		if v.stated[i].role != "assistant" {
			continue
		}
		a := chatAnswer{chatMessage: &v.stated[i]}
		if i > 0 {
			a.before = &v.stated[i-1]
		}
		out = append(out, a)
	}
	n := 0
	for i := range ms {
		if ms[i].Role == turns.Assistant {
			n++
		}
	}
	if n != len(out) {
		out = nil
		var before *chatMessage
		for i := range ms {
			m := new(chatMessage)
			if b, err := turns.EncodeJSON(&ms[i]); err == nil {
				m.digest = sha256.Sum256(b)
			}
			if ms[i].Role == turns.Assistant {
				out = append(out, chatAnswer{m, before})
			}
			before = m
		}
	}
	if v.usage != nil && n == 1 && out[0].usage == nil { // of the only call
		one := *out[0].chatMessage
		one.usage, one.details = v.usage, v.details
		out[0].chatMessage, v.usage = &one, nil
	}
	return out
}

// orphans returns m with user text in place of the responses to calls that the
// conversation does not have, since a response must have its call.
func (c *chatReader) orphans(m turns.Message, called map[string]bool, record string) []turns.Message {
	hasNoCall := func(p turns.Part) bool { return p.Type == turns.ToolCallResponse && !called[p.ID] }
	if !slices.ContainsFunc(m.Parts, hasNoCall) {
		return []turns.Message{m}
	}
	kept := turns.Message{Role: m.Role, Name: m.Name}
	text := turns.Message{Role: turns.User}
	for _, p := range m.Parts {
		if !hasNoCall(p) {
			kept.Parts = append(kept.Parts, p)
			continue
		}
		text.Parts = append(text.Parts, turns.TextPart(values.OrphanText(p.ID)+"\n"+values.Text(p.Response)))
		c.Loss.Add(0, "repaired", "a tool result without its call became text", record)
	}
	if len(kept.Parts) == 0 {
		return []turns.Message{text}
	}
	return []turns.Message{kept, text}
}

// orphanMessages returns the indexes of messages that stand for results without their calls,
// which no person wrote.
func orphanMessages(ms []turns.Message) (at []int) {
	for i, m := range ms {
		if m.Role == turns.User && len(m.Parts) > 0 && m.Parts[0].Type == turns.Text && strings.HasPrefix(m.Parts[0].Content, values.OrphanBegin) {
			at = append(at, i)
		}
	}
	return at
}
