package gemini

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"nexus/turns"
	"nexus/turns/internal/plain"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// geminiCLIWriter writes chats of Gemini CLI: one JSON document, of which each message is a
// line. A model's message waits for the results of its calls, which stand in it.
type geminiCLIWriter struct {
	s     transcript.WrittenSession
	begun bool
	any   bool // a message was written
	held  *geminiMessageOut
	turn  transcript.WrittenTurn // of held
	last  time.Time
	n     int // messages of the turn
}

type geminiMessageOut struct {
	ID       string             `json:"id"`
	Time     string             `json:"timestamp"`
	Type     string             `json:"type"`
	Content  any                `json:"content"` // a text, or a list of parts
	Thoughts []geminiThoughtOut `json:"thoughts,omitempty"`
	Calls    []geminiCallOut    `json:"toolCalls,omitempty"`
	Tokens   *geminiTokensOut   `json:"tokens,omitzero"`
	Model    string             `json:"model,omitzero"`
}

type geminiThoughtOut struct {
	Subject     string `json:"subject"`
	Description string `json:"description"`
	Time        string `json:"timestamp"`
}

type geminiCallOut struct {
	ID     string      `json:"id"`
	Name   string      `json:"name"`
	Args   turns.Raw   `json:"args"`
	Result []geminiOut `json:"result,omitempty"`
	Status string      `json:"status"`
	Time   string      `json:"timestamp"`
}

type geminiOut struct {
	Response geminiResponseOut `json:"functionResponse"`
}

type geminiResponseOut struct {
	ID       string               `json:"id"`
	Name     string               `json:"name"`
	Response map[string]turns.Raw `json:"response"`
}

type geminiTokensOut struct {
	Input    uint64 `json:"input"`
	Output   uint64 `json:"output"`
	Cached   uint64 `json:"cached"`
	Thoughts uint64 `json:"thoughts"`
	Tool     uint64 `json:"tool"`
	Total    uint64 `json:"total"`
}

type geminiPartOut struct {
	Text   *string          `json:"text,omitzero"`
	Inline *geminiInlineOut `json:"inlineData,omitzero"`
}

type geminiInlineOut struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

// ProjectHash returns how older versions of Gemini CLI name a folder.
func ProjectHash(cwd string) string {
	sum := sha256.Sum256([]byte(cwd))
	return hex.EncodeToString(sum[:])
}

// Turn implements [transcript.Writer]. The format has no compactions: a summary is a
// message of the user.
func (w *geminiCLIWriter) Turn(t transcript.WrittenTurn) ([][]byte, error) {
	w.n = 0
	w.last = t.Time
	var out [][]byte
	add := func(m *geminiMessageOut) error {
		lines, err := w.message(&t, m)
		out = append(out, lines...)
		return err
	}
	// The results of the calls that wait go into their message.
	var messages []turns.Message
	if t.Compaction {
		messages = []turns.Message{turns.TextMessage(turns.User, t.Summary)}
	}
	for _, m := range t.Messages {
		rest := m
		rest.Parts = nil
		for i := range m.Parts {
			p := &m.Parts[i]
			if p.Type != turns.ToolCallResponse || !w.answer(p) {
				rest.Parts = append(rest.Parts, *p)
			}
		}
		if len(rest.Parts) > 0 {
			messages = append(messages, rest)
		}
	}
	if w.held != nil && (len(messages) > 0 || t.Response != nil) { // else other results may come
		if err := add(w.held); err != nil {
			return nil, err
		}
		w.held = nil
	}
	for i := range messages {
		if err := add(&geminiMessageOut{ID: w.id(&t), Time: values.LineTime(t.Time), Type: "user", Content: geminiContents(messages[i].Parts)}); err != nil {
			return nil, err
		}
	}
	if t.Response == nil {
		return out, nil
	}
	m := &geminiMessageOut{ID: w.id(&t), Time: values.LineTime(t.Time), Type: "gemini", Model: t.Model}
	var said []turns.Part
	for i := range t.Response.Parts {
		p := &t.Response.Parts[i]
		switch p.Type {
		case turns.Reasoning:
			subject, description, both := strings.Cut(p.Content, "\n")
			if !both || len(subject) > 200 {
				subject, description = "", p.Content
			}
			m.Thoughts = append(m.Thoughts, geminiThoughtOut{subject, description, m.Time})
		case turns.ToolCall:
			m.Calls = append(m.Calls, geminiCallOut{ID: p.ID, Name: p.Name, Args: plain.Object(plain.Arguments(p)), Status: "cancelled", Time: m.Time})
		default:
			said = append(said, *p)
		}
	}
	m.Content = geminiContents(said)
	if u := t.Usage; u != nil {
		thoughts := min(t.Details.Reasoning, u.OutputTokens) // which Gemini CLI counts beside the output
		m.Tokens = &geminiTokensOut{Input: u.InputTokens, Output: u.OutputTokens - thoughts, Cached: u.CacheRead, Thoughts: thoughts, Total: u.InputTokens + u.OutputTokens}
	}
	w.held, w.turn = m, t
	return out, nil
}

// answer puts a result into the message that waits; it reports whether its call is there.
func (w *geminiCLIWriter) answer(p *turns.Part) bool {
	if w.held == nil {
		return false
	}
	for i := range w.held.Calls {
		c := &w.held.Calls[i]
		if c.ID != p.ID || c.Result != nil {
			continue
		}
		response, name := map[string]turns.Raw{}, "output"
		switch text, _ := p.Response.Text(); {
		case p.IsError:
			name, c.Status = "error", "error"
		case text != transcript.NoResult: // of a call that stays cancelled
			c.Status = "success"
		}
		response[name] = turns.RawText(plain.ResultText(p))
		c.Result = []geminiOut{{geminiResponseOut{c.ID, c.Name, response}}}
		return true
	}
	return false
}

func (w *geminiCLIWriter) id(t *transcript.WrittenTurn) string {
	id := uuid.NewSHA1(uuid.UUID(t.ID), fmt.Append(nil, w.n)).String()
	w.n++
	return id
}

func geminiContents(parts []turns.Part) any {
	if len(parts) == 0 {
		return ""
	}
	if p := &parts[0]; len(parts) == 1 && p.Type != turns.ToolCallResponse {
		if _, ok := plain.PictureOf(p); !ok {
			return plain.Text(p)
		}
	}
	out := []geminiPartOut{}
	for i := range parts {
		p := &parts[i]
		if pic, ok := plain.PictureOf(p); ok && pic.Base64 != "" {
			out = append(out, geminiPartOut{Inline: &geminiInlineOut{pic.MIME, pic.Base64}})
			continue
		}
		text := plain.Text(p)
		if p.Type == turns.ToolCallResponse {
			text = values.OrphanText(p.ID) + "\n" + plain.ResultText(p)
		}
		out = append(out, geminiPartOut{Text: &text})
	}
	return out
}

// message returns the line of a message, behind the head of the document and a comma.
func (w *geminiCLIWriter) message(t *transcript.WrittenTurn, m *geminiMessageOut) ([][]byte, error) {
	lines, err := transcript.EncodedLines(t.ID, []any{m})
	if err != nil {
		return nil, err
	}
	if w.any {
		lines[0] = append([]byte(","), lines[0]...)
	}
	w.any = true
	head, err := w.head()
	return append(head, lines...), err
}

func (w *geminiCLIWriter) head() ([][]byte, error) {
	if w.begun {
		return nil, nil
	}
	w.begun = true
	b, err := turns.EncodeJSON(struct {
		Session string `json:"sessionId"`
		Project string `json:"projectHash"`
		Start   string `json:"startTime"`

		Mark *transcript.ExportMark `json:"nexus,omitzero"`
	}{w.s.TranscriptID(), ProjectHash(w.s.Cwd), values.LineTime(w.s.Time), w.s.Mark()})
	if err != nil {
		return nil, err
	}
	return [][]byte{append(b[:len(b)-1], `,"messages":[`...)}, nil
}

// End implements [transcript.Writer].
func (w *geminiCLIWriter) End() ([][]byte, error) {
	out, err := w.head()
	if err == nil && w.held != nil {
		var lines [][]byte
		lines, err = w.message(&w.turn, w.held)
		out, w.held = append(out, lines...), nil
	}
	updated := w.s.Time // Gemini CLI removes sessions that were not changed for a month
	if w.last.After(updated) {
		updated = w.last
	}
	return append(out, []byte(`],"lastUpdated":"`+values.LineTime(updated)+`"}`)), err
}
