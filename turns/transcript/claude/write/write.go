package write

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"nexus/turns"
	"nexus/turns/internal/plain"
	"nexus/turns/internal/values"
	"nexus/turns/render"
	"nexus/turns/transcript"
)

// Writer writes a path as a Claude Code transcript, line by line,
// with ids derived from the turns', so that the same path gives the same lines.
// A block is a line, as Claude Code writes them. A call that was never answered
// stays so. System messages within the path are written as user text with
// isMeta; a part that the format can't hold becomes its description.
type Writer struct {
	session   string
	cwd       string
	branch    string
	title     string
	resumed   bool // see [transcript.WrittenSession]
	lastLine  *string
	time      time.Time
	lineCount int // lines of the turn
}

// New returns a writer for the path of a session.
func New(s transcript.WrittenSession) *Writer {
	return &Writer{session: s.TranscriptID(), cwd: s.Cwd, branch: s.Branch, title: s.Title, resumed: s.Resumed}
}

// line is a line of a transcript.

type line struct {
	Parent    *string  `json:"parentUuid"`
	Logical   *string  `json:"logicalParentUuid,omitzero"`
	Sidechain bool     `json:"isSidechain"`
	Meta      bool     `json:"isMeta,omitzero"`
	Summary   bool     `json:"isCompactSummary,omitzero"`
	UserType  string   `json:"userType"`
	Cwd       string   `json:"cwd"`
	Branch    string   `json:"gitBranch,omitzero"`
	Session   string   `json:"sessionId"`
	Version   string   `json:"version"`
	Type      string   `json:"type"`
	Subtype   string   `json:"subtype,omitzero"`
	Content   string   `json:"content,omitzero"`
	Message   *message `json:"message,omitzero"`
	Request   string   `json:"requestId,omitzero"`
	Compact   *compact `json:"compactMetadata,omitzero"`
	UUID      string   `json:"uuid"`
	Time      string   `json:"timestamp"`
}

// text is a text as a block, which has its text also where that is empty.
type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// titleLine is the title of a session.
type titleLine struct {
	Type    string `json:"type"`
	Title   string `json:"aiTitle"`
	Session string `json:"sessionId"`
}

type message struct {
	ID      string  `json:"id,omitzero"`
	Type    string  `json:"type,omitzero"`
	Role    string  `json:"role"`
	Model   string  `json:"model,omitzero"`
	Content any     `json:"content"` // a text, or a list of blocks
	Stop    *string `json:"stop_reason,omitzero"`
	Usage   *usage  `json:"usage,omitzero"`
}

type usage struct {
	Input         uint64 `json:"input_tokens"` // without the cache
	CacheCreation uint64 `json:"cache_creation_input_tokens"`
	CacheRead     uint64 `json:"cache_read_input_tokens"`
	Output        uint64 `json:"output_tokens"`

	Creation *creation `json:"cache_creation,omitzero"`
	Thinking *thinking `json:"output_tokens_details,omitzero"`
	Server   *server   `json:"server_tool_use,omitzero"`
	Tier     string    `json:"service_tier,omitzero"`
}

type creation struct {
	Hour    uint64 `json:"ephemeral_1h_input_tokens"`
	Minutes uint64 `json:"ephemeral_5m_input_tokens"`
}

type thinking struct {
	Tokens uint64 `json:"thinking_tokens"`
}

type server struct {
	Searches uint64 `json:"web_search_requests"`
}

// usageOf returns the usage of a turn as the reader of Claude Code's lines reads it, nil for none.
func usageOf(t *transcript.WrittenTurn) *usage {
	u, d := t.Usage, t.Details
	if u == nil {
		return nil
	}
	cached := u.CacheRead + u.CacheCreation
	out := &usage{Input: u.InputTokens - min(u.InputTokens, cached), CacheCreation: u.CacheCreation, CacheRead: u.CacheRead, Output: u.OutputTokens, Tier: d.Tier}
	if d.CacheHour > 0 { // it costs more
		out.Creation = &creation{d.CacheHour, u.CacheCreation - min(u.CacheCreation, d.CacheHour)}
	}
	if d.Reasoning > 0 {
		out.Thinking = &thinking{d.Reasoning}
	}
	if d.WebSearches > 0 {
		out.Server = &server{d.WebSearches}
	}
	return out
}

type compact struct {
	Trigger   string `json:"trigger"`
	PreTokens uint64 `json:"preTokens"`
}

// Turn returns the lines of the next turn or compaction, without line breaks. The caller
// owns them. It returns an error only for a turn that can't be encoded, which no ledger
// holds.
func (w *Writer) Turn(t transcript.WrittenTurn) ([][]byte, error) {
	w.lineCount, w.time = 0, t.Time
	if t.Compaction {
		return transcript.EncodedLines(t.ID, w.compaction(&t))
	}
	var out []line
	for i := range t.Messages {
		out = append(out, w.userLines(&t, &t.Messages[i])...)
	}
	if t.Response != nil {
		out = append(out, w.responseLines(&t)...)
	}
	return transcript.EncodedLines(t.ID, out)
}

// line returns the next line of a turn, as the child of the line before.
func (w *Writer) line(t *transcript.WrittenTurn, kind string) line {
	id := uuid.NewSHA1(uuid.UUID(t.ID), fmt.Append(nil, w.lineCount)).String()
	l := line{Parent: w.lastLine, UserType: "external", Cwd: w.cwd, Branch: w.branch, Session: w.session, Version: transcript.WriterName, Type: kind, UUID: id,
		Time: values.LineTime(w.time)}
	w.lastLine = &id
	w.lineCount++
	return l
}

func (w *Writer) userLines(t *transcript.WrittenTurn, m *turns.Message) (out []line) {
	for i := range m.Parts {
		p := &m.Parts[i]
		l := w.line(t, "user")
		block := blockOf(p)
		if p.Type == turns.ToolCallResponse {
			block = result{Type: "tool_result", ID: p.ID, IsError: p.IsError, Content: resultContent(p)}
		}
		l.Meta = m.Role == turns.System
		l.Message = &message{Role: "user", Content: []any{block}}
		out = append(out, l)
	}
	return out
}

type result struct {
	ID      string `json:"tool_use_id"`
	Type    string `json:"type"`
	Content any    `json:"content"` // a text, or a list of blocks
	IsError bool   `json:"is_error,omitzero"`
}

// resultContent returns a result in its own form: a text as text, a list as a list.
func resultContent(p *turns.Part) any {
	if s, ok := p.Response.Text(); ok && p.Ref == nil {
		return s
	}
	blocks := []any{}
	for _, part := range plain.ResultParts(p) {
		blocks = append(blocks, blockOf(&part))
	}
	return blocks
}

// blockOf is a text or picture as a block; one that was read from Claude
// Code and has no form of ours, as it stood there.
func blockOf(p *turns.Part) any {
	var ext struct {
		Block turns.Raw `json:"block"`
	}
	if plain.Ext(p, "claude-code", &ext) && ext.Block != nil {
		return ext.Block
	}
	if b, ok := render.AnthropicMedia(p); ok {
		return b
	}
	return text{"text", plain.Text(p)}
}

// responseLines returns the response, one line for each block. All lines have the id and
// the usage of one API message.
func (w *Writer) responseLines(t *transcript.WrittenTurn) (out []line) {
	var blocks []any
	for i := range t.Response.Parts {
		p := &t.Response.Parts[i]
		switch p.Type {
		case turns.ToolCall:
			blocks = append(blocks, render.AnthropicBlock{Type: "tool_use", ID: p.ID, Name: p.Name, Input: plain.Object(plain.Arguments(p))})
		case turns.Reasoning:
			b, ok := render.AnthropicThinking(p)
			if !ok && w.resumed {
				continue
			}
			if !ok {
				b = render.AnthropicBlock{Type: "thinking", Thinking: &p.Content, Signature: turns.RawText("")}
			}
			blocks = append(blocks, b)
		default:
			blocks = append(blocks, text{"text", plain.Text(p)})
		}
	}
	if len(blocks) == 0 {
		empty := text{"text", ""}
		if w.resumed {
			empty.Text = "[no text]" // the provider refuses an empty one
		}
		blocks = []any{empty}
	}
	usage := usageOf(t)
	for i, b := range blocks {
		l := w.line(t, "assistant")
		m := &message{ID: "msg_" + t.ID.String(), Type: "message", Role: "assistant", Model: t.Model, Content: []any{b}, Usage: usage}
		if i == len(blocks)-1 && t.Response.FinishReason != "" {
			m.Stop = &t.Response.FinishReason
		}
		l.Message, l.Request = m, "req_"+t.ID.String()
		out = append(out, l)
	}
	return out
}

func (w *Writer) compaction(t *transcript.WrittenTurn) []line {
	before := w.lastLine
	w.lastLine = nil
	l := w.line(t, "system")
	l.Logical, l.Subtype, l.Content = before, "compact_boundary", "Conversation compacted"
	l.Compact = &compact{Trigger: "manual", PreTokens: t.TokensBefore}
	if t.Automatic {
		l.Compact.Trigger = "auto"
	}
	s := w.line(t, "user")
	s.Summary = true
	text := t.Summary
	if w.resumed {
		text += plain.KeptText(t.Kept)
	}
	s.Message = &message{Role: "user", Content: text}
	return []line{l, s}
}

// End implements [transcript.Writer].
func (w *Writer) End() ([][]byte, error) {
	if w.title == "" {
		return nil, nil
	}
	return transcript.EncodedLines(turns.ID{}, []titleLine{{"ai-title", w.title, w.session}})
}
