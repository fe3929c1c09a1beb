package gemini

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// geminiCLIReader is the fold over the messages of a chat.
type geminiCLIReader struct {
	transcript.Source
	dec *jsontext.Decoder
	opt transcript.Options
	geminiCLIPoint
	source       string         // sessionId
	mark         jsontext.Value // see exportMark
	start        time.Time      // startTime
	subagent     bool           // kind
	spawner      string         // what the file calls the session that started it
	opened       bool
	last         *geminiCLIMessage // read last
	lastTime     time.Time         // of the last message that states one
	equal        map[string]int    // messages without an id, by their digest
	messageCount int               // messages read
	state        geminiCLIState
	log          *geminiCLILog // nil: the chat is one document
}

// geminiCLIPoint is what a message follows.
type geminiCLIPoint struct {
	session   turns.ID
	parent    turns.ID
	messages  []turns.Message // since the last turn
	recordIDs []string        // of the records in messages
	programs  []int           // indexes of messages that a program wrote in the name of the user
}

type geminiCLIState uint8

const (
	geminiCLIBefore   geminiCLIState = iota // the document's members
	geminiCLIMessages                       // inside messages
	geminiCLIEnd
)

type geminiCLIMessage struct {
	ID       string          `json:"id"`
	Time     string          `json:"timestamp"`
	Type     string          `json:"type"`
	Content  jsontext.Value  `json:"content"`
	Thoughts []geminiThought `json:"thoughts"`
	Calls    []geminiCLICall `json:"toolCalls"`
	Tokens   *geminiTokens   `json:"tokens"`
	Model    string          `json:"model"`

	key string // ID, else the digest of the message and its occurrence among equals

	Rest jsontext.Value `json:",embed"`
}

type geminiThought struct {
	Subject     string `json:"subject"`
	Description string `json:"description"`
}

type geminiCLICall struct {
	ID     string         `json:"id"`
	Name   string         `json:"name"`
	Args   jsontext.Value `json:"args"`
	Result jsontext.Value `json:"result"`
	Status string         `json:"status"`
	Agent  string         `json:"agentId"` // sessionId of the sub-agent that it started
}

type geminiTokens struct {
	Input    uint64 `json:"input"` // cached ones included
	Output   uint64 `json:"output"`
	Cached   uint64 `json:"cached"`
	Thoughts uint64 `json:"thoughts"`
	Tool     uint64 `json:"tool"`
}

// Read reads a chat that Gemini CLI saved. Older versions write one JSON document
// with sessionId, startTime and messages; newer ones a log of one record a line (see
// geminicli_log.go). A model's message ends a turn; its tool
// calls hold their results, which become the messages of the next.
//
// Gemini CLI rewrites the file, and adds tool calls to its last message. So a last
// message of the model is read only with Final.
//
// Messages are read one at a time; the document may be of any size. The
// lines of losses count messages.
func Read(r io.Reader, opt transcript.Options) *transcript.Reader {
	br := bufio.NewReaderSize(r, geminiCLIHead)
	if head, err := br.Peek(geminiCLIHead); isGeminiCLILog(head) && (err == nil || err == io.EOF) {
		return geminiCLILines(br, opt)
	}
	g := &geminiCLIReader{dec: jsontext.NewDecoder(br), opt: opt}
	g.Read = func() error {
		err := g.readRecord()
		if bad := (*jsontext.SyntacticError)(nil); errors.As(err, &bad) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: %w", turns.ErrMalformed, err)
		}
		if err != nil && err != io.EOF {
			err = fmt.Errorf("read gemini chat, message %d: %w", g.messageCount, err)
		}
		return err
	}
	return g.Reader()
}

// readRecord reads a member of the document, or one of its messages.
func (g *geminiCLIReader) readRecord() error {
	switch g.state {
	case geminiCLIBefore:
		return g.member()
	case geminiCLIMessages:
		return g.message()
	}
	return io.EOF
}

// member reads one member of the document.
func (g *geminiCLIReader) member() error {
	if g.dec.StackDepth() == 0 {
		t, err := g.dec.ReadToken()
		if err != nil {
			return err
		}
		if t.Kind() != '{' {
			return fmt.Errorf("%w: not an object", turns.ErrMalformed)
		}
	}
	if g.dec.PeekKind() == '}' {
		if _, err := g.dec.ReadToken(); err != nil {
			return err
		}
		return g.end()
	}
	t, err := g.dec.ReadToken()
	if err != nil {
		return err
	}
	name := t.String()
	if name == "messages" && g.dec.PeekKind() == '[' {
		if g.source == "" {
			return fmt.Errorf("%w: no sessionId before messages", turns.ErrMalformed)
		}
		if _, err := g.dec.ReadToken(); err != nil {
			return err
		}
		g.state = geminiCLIMessages
		return nil
	}
	v, err := g.dec.ReadValue()
	if err != nil {
		return err
	}
	switch name {
	case "sessionId":
		g.source = values.Text(turns.Raw(v))
	case "startTime":
		g.start = values.ParseTime(turns.Raw(v))
	case "nexus":
		g.mark = slices.Clone(v)
	case "kind":
		g.subagent = values.Text(turns.Raw(v)) == "subagent"
	case "parentSessionId":
		g.spawner = values.Text(turns.Raw(v))
	case "summary":
		if g.source != "" {
			g.Names.Set(g.sessionID(), turns.Raw(slices.Clone(v)), false)
		}
	case "projectHash", "lastUpdated":
	default:
		g.Loss.Count("skipped", "members of the document without a place: "+strconv.Quote(name))
	}
	return nil
}

func (g *geminiCLIReader) message() error {
	if g.dec.PeekKind() == ']' {
		if _, err := g.dec.ReadToken(); err != nil {
			return err
		}
		g.state = geminiCLIBefore
		return nil
	}
	raw, err := g.dec.ReadValue()
	if err != nil {
		return err
	}
	g.messageCount++
	m := new(geminiCLIMessage)
	if err := values.Decode(bytes.Clone(raw), m); err != nil {
		g.Loss.Add(g.messageCount, "skipped", "a message that can't be read: "+err.Error(), "")
		return nil
	}
	g.keyMessage(m, raw)
	if g.last != nil {
		g.place(g.last)
	}
	g.last = m
	return nil
}

// end reads the end of the document. Gemini CLI writes a message of the model when it
// has its text, and adds the tool calls when they have run. So the last message is
// complete only with final, or when another follows it.
func (g *geminiCLIReader) end() error {
	g.state = geminiCLIEnd
	m := g.last
	switch {
	case m == nil:
	case !g.opt.Final:
		if m.Type == "user" || m.Type == "gemini" || len(g.messages) > 0 {
			g.Loss.Unfinished(1)
		}
	default:
		g.place(m)
		if len(g.messages) > 0 {
			g.turn(values.ParseTime(turns.RawText(m.Time)), m, nil)
		}
	}
	return nil
}

// keyMessage gives a message without an id a key: a digest, with its occurrence among
// equals.
func (g *geminiCLIReader) keyMessage(m *geminiCLIMessage, raw []byte) {
	if m.key = m.ID; m.ID != "" {
		return
	}
	sum := sha256.Sum256(raw)
	m.key = "sha256:" + hex.EncodeToString(sum[:])
	if g.equal == nil {
		g.equal = make(map[string]int)
	}
	if g.equal[m.key]++; g.equal[m.key] > 1 {
		m.key += " " + strconv.Itoa(g.equal[m.key])
	}
}

// sessionID returns the id of the session that the chat is.
func (g *geminiCLIReader) sessionID() turns.ID {
	return turns.DeriveID(g.start, "gemini-cli", g.source)
}

func (g *geminiCLIReader) open() {
	if g.opened {
		return
	}
	g.opened = true
	g.session = g.sessionID()
	o := &transcript.Open{ID: g.session, Time: g.start, Meta: g.sessionMeta(), Exported: transcript.ExportedFrom(g.source, g.mark)}
	if g.subagent {
		if o.SpawnedBy = g.opt.SpawnedBy; o.SpawnedBy.IsZero() {
			g.Loss.Add(1, "repaired", "the session that started this sub-agent was not found; meta names it where the source does", g.spawnerName())
		}
	}
	g.Step(transcript.Step{Open: o})
}

func (g *geminiCLIReader) spawnerName() string {
	if g.spawner == "" {
		return g.opt.Spawner
	}
	return g.spawner
}

func (g *geminiCLIReader) sessionMeta() turns.Raw {
	m := map[string]string{"source": "gemini-cli", "session_id": g.source}
	if g.subagent {
		m["kind"] = "subagent"
		if by := g.spawnerName(); by != "" {
			m["parent_session_id"] = by
		}
	}
	return values.Encoded(m)
}

func (g *geminiCLIReader) place(m *geminiCLIMessage) {
	at := values.ParseTime(turns.RawText(m.Time))
	if !at.IsZero() {
		g.lastTime = at
	}
	switch m.Type {
	case "user":
		message := turns.Message{Role: turns.User, Parts: g.parts(m)}
		if isGeminiCLINote(&message) {
			g.programs = append(slices.Clip(g.programs), len(g.messages))
		}
		g.messages = append(g.messages, message)
		g.recordIDs = append(g.recordIDs, m.key)
	case "gemini":
		response, results := g.response(m)
		g.turn(at, m, &response)
		g.messages = results
	default:
		g.Loss.Count("skipped", "messages of type "+strconv.Quote(m.Type))
	}
	if m.Rest != nil {
		var rest map[string]turns.Raw
		if json.Unmarshal(m.Rest, &rest) == nil {
			for k := range rest {
				g.Loss.Count("skipped", "members of messages without a place: "+strconv.Quote(k))
			}
		}
	}
}

// isGeminiCLINote reports whether Gemini CLI wrote a message in the name of the user.
func isGeminiCLINote(m *turns.Message) bool {
	if len(m.Parts) == 0 || m.Parts[0].Type != turns.Text {
		return false
	}
	text := strings.TrimSpace(m.Parts[0].Content)
	return slices.ContainsFunc([]string{
		"<session_context>", "This is the Gemini CLI. We are setting up the context", "<state_snapshot>", "<hook_context>", "System: Please continue",
	}, func(begin string) bool { return strings.HasPrefix(text, begin) })
}

// turn emits a turn. at is the time that its last message states; zero: none.
func (g *geminiCLIReader) turn(at time.Time, m *geminiCLIMessage, response *turns.Message) {
	key := m.key
	if response == nil {
		key += " pending"
	}
	idTime, bound := at, turns.TimeBound("")
	if at.IsZero() {
		idTime, at, bound = g.start, g.lastTime, turns.TimeNotBefore
		if at.IsZero() {
			at = g.start
		}
	}
	a := &transcript.Append{ID: turns.DeriveID(idTime, "gemini-cli", g.source, key), Branch: turns.DeriveID(idTime, "gemini-cli branch", g.source, key)}
	g.openSession(at, a.Branch, a.ID)
	a.Session, a.Parent, a.Time, a.Messages, a.Response = g.session, g.parent, at, values.NonNil(g.messages), response
	if response != nil {
		a.Model = m.Model
		if t := m.Tokens; t != nil {
			a.Usage = &turns.Usage{InputTokens: t.Input + t.Tool, OutputTokens: t.Output + t.Thoughts, CacheRead: t.Cached}
		}
	}
	meta := map[string]any{"message_id": m.ID}
	if len(g.recordIDs) > 0 {
		meta["messages"] = g.recordIDs
	}
	if t := m.Tokens; a.Usage != nil && t.Thoughts > 0 {
		meta["usage"] = turns.UsageDetails{Reasoning: t.Thoughts}
	}
	var agents []string
	for _, c := range m.Calls {
		if c.Agent != "" && response != nil {
			agents = append(agents, c.Agent)
		}
	}
	if len(agents) > 0 {
		meta["agents"] = agents
	}
	a.Meta = values.WithProgramMessages(values.WithTimeBound(values.Encoded(meta), bound), g.programs)
	g.Step(transcript.Step{Append: a})
	g.parent, g.messages, g.recordIDs, g.programs = a.ID, nil, nil, nil
	if g.log != nil {
		g.log.turnEnds(g.session, a.ID)
	}
}

// parts is what a message says: a text, or Gemini's own parts.
func (g *geminiCLIReader) parts(m *geminiCLIMessage) (out []turns.Part) {
	if s, ok := turns.Raw(m.Content).Text(); ok {
		if s == "" {
			return nil
		}
		return []turns.Part{turns.TextPart(s)}
	}
	var list []struct {
		Text   *string `json:"text"`
		Inline *struct {
			MimeType string `json:"mimeType"`
			Data     string `json:"data"`
		} `json:"inlineData"`
		File *struct {
			MimeType string `json:"mimeType"`
			URI      string `json:"fileUri"`
		} `json:"fileData"`
	}
	if m.Content.Kind() == '[' && values.Decode(m.Content, &list) == nil {
		for i, p := range list {
			switch {
			case p.Text != nil:
				out = append(out, turns.TextPart(*p.Text))
			case p.Inline != nil:
				b, err := base64.StdEncoding.DecodeString(p.Inline.Data)
				if err != nil {
					g.Loss.Add(g.messageCount, "skipped", "inline data that is not base64", m.ID)
					continue
				}
				out = append(out, turns.Part{Type: turns.Blob, Modality: modality(p.Inline.MimeType), MimeType: p.Inline.MimeType, Data: b})
			case p.File != nil:
				out = append(out, turns.Part{Type: turns.URI, Modality: modality(p.File.MimeType), MimeType: p.File.MimeType, Content: p.File.URI})
			default:
				g.Loss.Add(g.messageCount, "skipped", fmt.Sprintf("part %d of a message is of no known kind", i), m.ID)
			}
		}
		return out
	}
	if len(m.Content) > 0 && m.Content.Kind() != 'n' {
		g.Loss.Add(g.messageCount, "repaired", "content of no known form is kept as its JSON", m.ID)
		return []turns.Part{turns.TextPart(string(m.Content))}
	}
	return nil
}

// modality returns the type of a MIME type, without its subtype.
func modality(mime string) string {
	m, _, _ := strings.Cut(mime, "/")
	return m
}

// response returns the model's message, and the results of its calls.
func (g *geminiCLIReader) response(m *geminiCLIMessage) (response turns.Message, results []turns.Message) {
	response.Role = turns.Assistant
	for _, t := range m.Thoughts {
		s := t.Description
		if t.Subject != "" {
			s = t.Subject + "\n" + s
		}
		response.Parts = append(response.Parts, turns.Part{Type: turns.Reasoning, Content: s})
	}
	response.Parts = append(response.Parts, g.parts(m)...)
	for i, c := range m.Calls {
		if c.ID == "" || slices.Contains(response.Calls(nil), c.ID) {
			c.ID = fmt.Sprintf("%s-%d", m.key, i)
			g.Loss.Add(g.messageCount, "repaired", "a tool call without an id of its own was given one", m.ID)
		}
		c.Name = g.Loss.ToolName(g.messageCount, c.Name, c.ID)
		response.Parts = append(response.Parts, turns.Part{Type: turns.ToolCall, ID: c.ID, Name: c.Name, Arguments: values.ArgumentsOrEmpty(turns.Raw(c.Args))})
		results = append(results, g.result(&c)...)
	}
	for range m.Calls {
		g.Loss.Count("skipped", "what the terminal showed of a tool call; call and result are stored")
	}
	return response, results
}

// result returns the result of a call, nothing if it was never answered.
func (g *geminiCLIReader) result(c *geminiCLICall) []turns.Message {
	part := turns.Part{Type: turns.ToolCallResponse, ID: c.ID, Name: c.Name, IsError: c.Status == "error" || c.Status == "cancelled"}
	var list []struct {
		Response *struct {
			Response turns.Raw `json:"response"`
		} `json:"functionResponse"`
	}
	switch {
	case len(c.Result) == 0 || c.Result.Kind() == 'n':
		return nil
	case c.Result.Kind() == '[' && values.Decode(c.Result, &list) == nil && len(list) == 1 && list[0].Response != nil && list[0].Response.Response != nil:
		part.Response = list[0].Response.Response
		var only map[string]turns.Raw
		if values.Decode(part.Response, &only) == nil && len(only) == 1 {
			for _, name := range []string{"output", "error"} {
				if v, ok := only[name]; ok && v.Kind() == '"' {
					part.Response, part.IsError = v, part.IsError || name == "error"
				}
			}
		}
	default:
		part.Response = turns.Raw(c.Result)
	}
	return []turns.Message{{Role: turns.Tool, Parts: []turns.Part{part}}}
}

// Sniff reports whether head, the first bytes of a file, looks like a
// chat of Gemini CLI: an object that begins with sessionId and projectHash.
func Sniff(head []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(head))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	var names []string
	for d.PeekKind() == '"' && len(names) < 6 {
		t, err := d.ReadToken()
		if err != nil {
			return false
		}
		if names = append(names, t.String()); t.String() == "messages" {
			break
		}
		if d.SkipValue() != nil {
			break
		}
	}
	return slices.Contains(names, "sessionId") && slices.Contains(names, "projectHash")
}

// Head is what the beginning of a chat of Gemini CLI says of it.
type Head struct {
	Session  string // what Gemini CLI calls it
	Subagent bool
	Spawner  string // what Gemini CLI calls the session that started the sub-agent; empty: not said
}

// ReadHead reads the members of a chat before its messages. ok is false for another
// file.
func ReadHead(head []byte) (h Head, ok bool) {
	d := jsontext.NewDecoder(bytes.NewReader(head))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return h, false
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil || t.String() == "messages" {
			break
		}
		name := t.String()
		v, err := d.ReadValue()
		if err != nil {
			break
		}
		switch s, _ := turns.Raw(v).Text(); name {
		case "sessionId":
			h.Session = s
		case "kind":
			h.Subagent = s == "subagent"
		case "parentSessionId":
			h.Spawner = s
		}
	}
	return h, h.Session != ""
}

// Spawner returns the turn of a chat whose call started a sub-agent, by what Gemini
// CLI calls the sub-agent's session. The turn is zero if the chat does not say which, and
// the ref is zero if the chat can't be read.
func Spawner(chat io.Reader, agent string) (by turns.Ref) {
	for s, err := range Read(chat, transcript.Options{Final: true}).Steps() {
		switch {
		case err != nil:
			return by
		case s.Open != nil && by.IsZero():
			by.Session = s.Open.ID
		case s.Append != nil:
			var m struct {
				Agents []string `json:"agents"`
			}
			if json.Unmarshal(s.Append.Meta, &m) == nil && slices.Contains(m.Agents, agent) {
				return turns.Ref{Session: s.Append.Session, Turn: s.Append.ID}
			}
		}
	}
	return by
}

// Format is the format of Gemini CLI's chats.
func Format() transcript.Format {
	return transcript.Format{
		Name: "gemini-cli", Version: 1, Sniff: Sniff, Open: Read, Lines: geminiCLILines, IsLines: isGeminiCLILog,
		Write: func(s transcript.WrittenSession) transcript.Writer { return &geminiCLIWriter{s: s} },
	}
}
