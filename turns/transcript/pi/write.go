package pi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/internal/plain"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// piWriter writes sessions of pi, version 3.
type piWriter struct {
	s     transcript.WrittenSession
	now   time.Time // of the last turn, or of the session before the first
	begun bool
	last  *string
	used  map[string]bool // ids of entries
	names map[string]string
	first map[turns.ID]string // first entry of each turn
}

type piHead struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	ID      string `json:"id"`
	Time    string `json:"timestamp"`
	Cwd     string `json:"cwd"`

	Mark *transcript.ExportMark `json:"nexus,omitzero"`
}

type piTitle struct {
	Type   string  `json:"type"`
	ID     string  `json:"id"`
	Parent *string `json:"parentId"`
	Time   string  `json:"timestamp"`
	Name   string  `json:"name"`
}

type piLine struct {
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	Parent    *string `json:"parentId"`
	Time      string  `json:"timestamp"`
	Message   any     `json:"message,omitzero"`
	Summary   *string `json:"summary,omitzero"`
	FirstKept *string `json:"firstKeptEntryId,omitzero"`
	Before    *uint64 `json:"tokensBefore,omitzero"`
}

type piMessageOut struct {
	Role     string       `json:"role"`
	CallID   string       `json:"toolCallId,omitzero"`
	Tool     string       `json:"toolName,omitzero"`
	Content  []piBlockOut `json:"content"`
	IsError  *bool        `json:"isError,omitzero"`
	API      string       `json:"api,omitzero"`
	Provider string       `json:"provider,omitzero"`
	Model    string       `json:"model,omitzero"`
	Usage    *piUsageOut  `json:"usage,omitzero"`
	Stop     string       `json:"stopReason,omitzero"`
	Time     int64        `json:"timestamp"`
}

type piBlockOut struct {
	Type      string    `json:"type"`
	Text      *string   `json:"text,omitzero"`
	OfText    turns.Raw `json:"textSignature,omitzero"`
	Thinking  *string   `json:"thinking,omitzero"`
	Signature turns.Raw `json:"thinkingSignature,omitzero"`
	Redacted  bool      `json:"redacted,omitzero"`
	ID        string    `json:"id,omitzero"`
	Name      string    `json:"name,omitzero"`
	Arguments turns.Raw `json:"arguments,omitzero"`
	OfThought turns.Raw `json:"thoughtSignature,omitzero"`
	Data      string    `json:"data,omitzero"`
	MimeType  string    `json:"mimeType,omitzero"`
}

type piUsageOut struct {
	Input      uint64 `json:"input"`
	Output     uint64 `json:"output"`
	CacheRead  uint64 `json:"cacheRead"`
	CacheWrite uint64 `json:"cacheWrite"`
	Total      uint64 `json:"totalTokens"`
	Cost       piCost `json:"cost"`
}

// piCost is in dollars. pi adds up the numbers of all messages, so they are there also
// where no cost is known; Unknown then tells a reader that they say nothing.
type piCost struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
	Total      float64 `json:"total"`
	Unknown    bool    `json:"unknown,omitzero"`
}

// writtenPiCost returns the cost that the source of a turn recorded: by kind of token, if
// it did so as pi does, else the total.
func writtenPiCost(recorded turns.Raw) (c piCost) {
	dollars, ok := turns.CostOf(values.Encoded(piMeta{Cost: recorded}))
	if !ok {
		return piCost{Unknown: true}
	}
	if recorded.Kind() != '{' || json.Unmarshal(recorded, &c) != nil {
		c = piCost{}
	}
	c.Total, c.Unknown = dollars, false
	return c
}

// Turn implements [transcript.Writer].
func (w *piWriter) Turn(t transcript.WrittenTurn) ([][]byte, error) {
	w.now = t.Time
	out := w.head()
	n := 0
	entry := func(kind string) piLine {
		l := piLine{Type: kind, ID: w.entryID(t.ID, n), Parent: w.last, Time: values.LineTime(t.Time)}
		if n == 0 {
			w.first[t.ID] = l.ID
		}
		w.last = &l.ID
		n++
		return l
	}
	say := func(m piMessageOut) {
		m.Time = t.Time.UnixMilli()
		l := entry("message")
		l.Message = m
		out = append(out, l)
	}
	if t.Compaction {
		l := entry("compaction")
		kept := w.first[t.FirstKept]
		l.Summary, l.FirstKept, l.Before = &t.Summary, &kept, &t.TokensBefore
		return transcript.EncodedLines(t.ID, append(out, l))
	}
	for i := range t.Messages {
		var parts []turns.Part
		flush := func() {
			if len(parts) > 0 {
				say(piMessageOut{Role: "user", Content: piContents(parts)})
				parts = nil
			}
		}
		for _, p := range t.Messages[i].Parts {
			if p.Type != turns.ToolCallResponse {
				parts = append(parts, p)
				continue
			}
			flush()
			text, pictures := plain.Result(&p)
			blocks := []piBlockOut{{Type: "text", Text: &text}}
			for j := range pictures {
				blocks = append(blocks, piContents(pictures[j:j+1])...)
			}
			say(piMessageOut{Role: "toolResult", CallID: p.ID, Tool: w.names[p.ID], Content: blocks, IsError: &p.IsError})
		}
		flush()
	}
	if t.Response != nil {
		say(w.response(&t))
	}
	return transcript.EncodedLines(t.ID, out)
}

// End implements [transcript.Writer].
func (w *piWriter) End() ([][]byte, error) {
	out := w.head()
	if w.s.Title != "" {
		out = append(out, piTitle{"session_info", w.entryID(w.s.ID, 0), w.last, values.LineTime(w.now), w.s.Title})
	}
	return transcript.EncodedLines(turns.ID{}, out)
}

func (w *piWriter) head() []any {
	if w.begun {
		return nil
	}
	w.begun = true
	return []any{piHead{Type: "session", Version: 3, ID: w.s.TranscriptID(), Time: values.LineTime(w.s.Time), Cwd: w.s.Cwd, Mark: w.s.Mark()}}
}

// entryID returns the id of entry n of a turn: eight hexadecimal digits, more if an entry
// before has those.
func (w *piWriter) entryID(turn turns.ID, n int) string {
	sum := sha256.Sum256(fmt.Append(turn[:], n))
	id := hex.EncodeToString(sum[:])
	for k := 8; ; k++ {
		if s := id[:min(k, len(id))]; !w.used[s] || k > len(id) {
			w.used[s] = true
			return s
		}
	}
}

func piContents(parts []turns.Part) []piBlockOut {
	out := []piBlockOut{}
	for i := range parts {
		p := &parts[i]
		if pic, ok := plain.PictureOf(p); ok && pic.Base64 != "" {
			out = append(out, piBlockOut{Type: "image", Data: pic.Base64, MimeType: pic.MIME})
			continue
		}
		text := plain.Text(p)
		out = append(out, piBlockOut{Type: "text", Text: &text})
	}
	return out
}

// piProvider returns the API and the provider of a model, by its name.
func piProvider(model string) (api, provider, ext string) {
	switch m := strings.ToLower(model); {
	case strings.Contains(m, "claude"):
		return "anthropic-messages", "anthropic", "anthropic"
	case strings.Contains(m, "gemini"):
		return "google-generative-ai", "google", "gemini"
	}
	return "openai-responses", "openai", "openai"
}

func (w *piWriter) response(t *transcript.WrittenTurn) piMessageOut {
	m := piMessageOut{Role: "assistant", Model: t.Model, Content: []piBlockOut{}, Usage: &piUsageOut{Cost: writtenPiCost(t.Cost)}}
	ext := ""
	m.API, m.Provider, ext = piProvider(t.Model)
	if u := t.Usage; u != nil {
		cached := u.CacheRead + u.CacheCreation
		m.Usage.Input, m.Usage.Output, m.Usage.CacheRead, m.Usage.CacheWrite = u.InputTokens-min(u.InputTokens, cached), u.OutputTokens, u.CacheRead, u.CacheCreation
		m.Usage.Total = m.Usage.Input + u.OutputTokens + cached
	}
	calls := false
	for i := range t.Response.Parts {
		p := &t.Response.Parts[i]
		var own struct {
			Signature turns.Raw `json:"signature"`
			Data      turns.Raw `json:"data"`
			Item      turns.Raw `json:"item"`
			Thinking  turns.Raw `json:"thinkingSignature"`
			Thought   turns.Raw `json:"thoughtSignature"`
			OfText    turns.Raw `json:"textSignature"`
		}
		_ = plain.Ext(p, ext, &own)
		switch p.Type {
		case turns.ToolCall:
			calls = true
			if w.names == nil {
				w.names = make(map[string]string)
			}
			w.names[p.ID] = p.Name
			m.Content = append(m.Content, piBlockOut{Type: "toolCall", ID: p.ID, Name: p.Name, Arguments: plain.Object(plain.Arguments(p)), OfThought: own.Thought})
		case turns.Reasoning:
			b := piBlockOut{Type: "thinking", Thinking: &p.Content, Signature: own.Thinking}
			switch {
			case own.Signature != nil:
				b.Signature = own.Signature
			case own.Data != nil:
				b.Signature, b.Redacted = own.Data, true
			case own.Item != nil:
				b.Signature = turns.RawText(string(own.Item))
			case own.Thought != nil:
				b.Signature = own.Thought
			}
			m.Content = append(m.Content, b)
		default:
			text := plain.Text(p)
			m.Content = append(m.Content, piBlockOut{Type: "text", Text: &text, OfText: own.OfText})
		}
	}
	switch finish := t.Response.FinishReason; {
	case calls:
		m.Stop = "toolUse"
	case finish == "length" || finish == "max_tokens":
		m.Stop = "length"
	case finish == "aborted" || finish == "error":
		m.Stop = finish
	default:
		m.Stop = "stop"
	}
	return m
}
