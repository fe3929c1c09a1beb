package interchange

import (
	"bufio"
	"bytes"
	"encoding/base64"
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
)

// geminiCLIReader is the fold over the messages of a chat.
type geminiCLIReader struct {
	Reader
	dec *jsontext.Decoder
	opt Options
	geminiCLIPoint
	source       string         // sessionId
	mark         jsontext.Value // see exportMark
	start        time.Time      // startTime
	opened       bool
	last         *geminiCLIMessage // read last
	lastTime     time.Time         // of the last message
	turnCount    int
	messageCount int // messages read
	state        geminiCLIState
	log          *geminiCLILog // nil: the chat is one document
}

// geminiCLIPoint is what a message follows.
type geminiCLIPoint struct {
	session   turns.ID
	parent    turns.ID
	messages  []turns.Message // since the last turn
	recordIDs []string        // of the records in messages
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
}

type geminiTokens struct {
	Input    uint64 `json:"input"` // cached ones included
	Output   uint64 `json:"output"`
	Cached   uint64 `json:"cached"`
	Thoughts uint64 `json:"thoughts"`
	Tool     uint64 `json:"tool"`
}

// GeminiCLI reads a chat that Gemini CLI saved. Older versions write one JSON document
// with sessionId, startTime and messages; newer ones a log of one record a line (see
// geminicli_log.go). A model's message ends a turn; its tool
// calls hold their results, which become the messages of the next.
//
// Gemini CLI rewrites the file, and adds tool calls to its last message. So a last
// message of the model is read only with Final.
//
// Messages are read one at a time; the document may be of any size. The
// lines of losses count messages.
func GeminiCLI(r io.Reader, opt Options) *Reader {
	br := bufio.NewReaderSize(r, geminiCLIHead)
	if head, err := br.Peek(geminiCLIHead); isGeminiCLILog(head) && (err == nil || err == io.EOF) {
		return geminiCLILines(br, opt)
	}
	g := &geminiCLIReader{dec: jsontext.NewDecoder(br), opt: opt}
	g.read = func() error {
		err := g.readRecord()
		if bad := (*jsontext.SyntacticError)(nil); errors.As(err, &bad) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: %w", turns.ErrMalformed, err)
		}
		if err != nil && err != io.EOF {
			err = fmt.Errorf("read gemini chat, message %d: %w", g.messageCount, err)
		}
		return err
	}
	return &g.Reader
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
		g.source = jsonText(turns.Raw(v))
	case "startTime":
		g.start = parseTime(turns.Raw(v))
	case "nexus":
		g.mark = slices.Clone(v)
	case "projectHash", "lastUpdated", "kind":
	default:
		g.loss.count("skipped", "members of the document without a place: "+strconv.Quote(name))
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
	if err := decodeLoose(bytes.Clone(raw), m); err != nil {
		g.loss.add(g.messageCount, "skipped", "a message that can't be read: "+err.Error(), "")
		return nil
	}
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
			g.loss.unfinished(1)
		}
	default:
		g.place(m)
		if len(g.messages) > 0 {
			g.turn(g.lastTime, m, nil)
		}
	}
	return nil
}

func (g *geminiCLIReader) open() {
	if g.opened {
		return
	}
	g.opened = true
	g.session = turns.DeriveID(g.start, "gemini-cli", g.source)
	g.step(Step{Open: &Open{ID: g.session, Time: g.start, Meta: g.sessionMeta(), Exported: exportedFrom(g.source, g.mark)}})
}

func (g *geminiCLIReader) sessionMeta() turns.Raw {
	return encoded(map[string]string{"source": "gemini-cli", "session_id": g.source})
}

func (g *geminiCLIReader) place(m *geminiCLIMessage) {
	g.lastTime = parseTime(turns.RawText(m.Time))
	switch m.Type {
	case "user":
		g.messages = append(g.messages, turns.Message{Role: turns.User, Parts: g.parts(m)})
		g.recordIDs = append(g.recordIDs, m.ID)
	case "gemini":
		response, results := g.response(m)
		g.turn(g.lastTime, m, &response)
		g.messages = results
	default:
		g.loss.count("skipped", "messages of type "+strconv.Quote(m.Type))
	}
	if m.Rest != nil {
		var rest map[string]turns.Raw
		if json.Unmarshal(m.Rest, &rest) == nil {
			for k := range rest {
				g.loss.count("skipped", "members of messages without a place: "+strconv.Quote(k))
			}
		}
	}
}

func (g *geminiCLIReader) turn(at time.Time, m *geminiCLIMessage, response *turns.Message) {
	g.openSession(at, m.ID)
	a := &Append{Session: g.session, Parent: g.parent, Time: at, Messages: nonNil(g.messages), Response: response}
	key := m.ID
	if response == nil {
		key += " pending"
	} else {
		a.Model = m.Model
		if t := m.Tokens; t != nil {
			a.Usage = &turns.Usage{InputTokens: t.Input + t.Tool, OutputTokens: t.Output + t.Thoughts, CacheRead: t.Cached}
		}
	}
	if m.ID == "" {
		key = strconv.Itoa(g.turnCount)
	}
	a.ID = turns.DeriveID(at, "gemini-cli", g.source, key)
	meta := map[string]any{"message_id": m.ID}
	if len(g.recordIDs) > 0 {
		meta["messages"] = g.recordIDs
	}
	if t := m.Tokens; a.Usage != nil && t.Thoughts > 0 {
		meta["usage"] = turns.UsageDetails{Reasoning: t.Thoughts}
	}
	a.Meta = encoded(meta)
	g.step(Step{Append: a})
	g.parent, g.messages, g.recordIDs = a.ID, nil, nil
	g.turnCount++
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
	if m.Content.Kind() == '[' && decodeLoose(m.Content, &list) == nil {
		for i, p := range list {
			switch {
			case p.Text != nil:
				out = append(out, turns.TextPart(*p.Text))
			case p.Inline != nil:
				b, err := base64.StdEncoding.DecodeString(p.Inline.Data)
				if err != nil {
					g.loss.add(g.messageCount, "skipped", "inline data that is not base64", m.ID)
					continue
				}
				out = append(out, turns.Part{Type: turns.Blob, Modality: modality(p.Inline.MimeType), MimeType: p.Inline.MimeType, Data: b})
			case p.File != nil:
				out = append(out, turns.Part{Type: turns.URI, Modality: modality(p.File.MimeType), MimeType: p.File.MimeType, Content: p.File.URI})
			default:
				g.loss.add(g.messageCount, "skipped", fmt.Sprintf("part %d of a message is of no known kind", i), m.ID)
			}
		}
		return out
	}
	if len(m.Content) > 0 && m.Content.Kind() != 'n' {
		g.loss.add(g.messageCount, "repaired", "content of no known form is kept as its JSON", m.ID)
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
			c.ID = fmt.Sprintf("%s-%d", m.ID, i)
			g.loss.add(g.messageCount, "repaired", "a tool call without an id of its own was given one", m.ID)
		}
		c.Name = g.loss.toolName(g.messageCount, c.Name, c.ID)
		response.Parts = append(response.Parts, turns.Part{Type: turns.ToolCall, ID: c.ID, Name: c.Name, Arguments: argumentsOrEmpty(turns.Raw(c.Args))})
		results = append(results, g.result(&c)...)
	}
	for range m.Calls {
		g.loss.count("skipped", "what the terminal showed of a tool call; call and result are stored")
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
	case c.Result.Kind() == '[' && decodeLoose(c.Result, &list) == nil && len(list) == 1 && list[0].Response != nil && list[0].Response.Response != nil:
		part.Response = list[0].Response.Response
		var only map[string]turns.Raw
		if decodeLoose(part.Response, &only) == nil && len(only) == 1 {
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

// SniffGeminiCLI reports whether head, the first bytes of a file, looks like a
// chat of Gemini CLI: an object that begins with sessionId and projectHash.
func SniffGeminiCLI(head []byte) bool {
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
