package render

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/plain"
)

// Limits of Anthropic's Messages API, from its error texts
// (strict/anthropic.go has them).
const (
	anthropicToolName = 128     // of a tool's definition, in characters; a tool_use takes 200
	anthropicImage    = 5 << 20 // bytes of base64

	mimePDF = "application/pdf"
)

// Anthropic renders the system member and the messages of a Messages request.
//
//   - Sections, then the system messages that the context begins with (a
//     compaction's summary is one), are text blocks of System, in order. A
//     system message further on becomes a user text marked "[System message]".
//   - Consecutive messages of one role are one message. The first is the
//     user's: a short marked text where the context begins with the assistant.
//   - The results of a message's calls come first in the user message after
//     it, in the order of the calls. Calls may be open at the end.
//   - Reasoning is a thinking block where ext.anthropic has a signature, a
//     redacted_thinking block where that has data, both byte for byte; else it
//     is left out, since the API takes no unsigned thinking. Thinking that
//     nothing follows in its message is left out too: the API refuses a
//     message that ends in it.
//   - An input that is no object is {"value": …}.
//   - Blank texts are left out, and so are messages that have nothing else; a
//     failed call without a text gets a marked one. A final assistant message
//     loses its trailing white space. Each of these is a 400 otherwise.
//   - Images and PDFs are base64 or url blocks of user messages and results,
//     else a placeholder: elsewhere, over 5 MiB of base64, in a failed call's result
//     (text alone is allowed there), and for other media.
//   - Ids with characters other than [a-zA-Z0-9_-], or used twice, are
//     replaced by derived ones; such characters in a tool's name become _.
//
// Messages is empty where nothing but system text remains: the API wants a
// message, which the caller must add. Errors: as [OpenAI].
func Anthropic(system []turns.Section, tools []turns.Raw, ms []turns.Message) (Rendered, error) {
	return (*Memo)(nil).Anthropic(system, tools, ms)
}

// Anthropic is [Anthropic] after the rendering of e.
func (e *Memo) Anthropic(system []turns.Section, tools []turns.Raw, ms []turns.Message) (Rendered, error) {
	w := &anthropicWriter{ids: wireIDs{fits: func(id string) bool {
		return id != "" && !strings.ContainsFunc(id, func(r rune) bool { return !plain.IsIDRune(r) })
	}}}
	r, c, err := e.render("anthropic", w, tools, ms, func(messages []any) []any {
		if len(messages) == 0 || messages[0].(*anthropicMessage).Role != "assistant" {
			return nil
		}
		return []any{&anthropicMessage{"user", appendText(nil, markContinued)}}
	})
	if err != nil {
		return r, err
	}
	var blocks []AnthropicBlock
	for _, s := range system {
		blocks = appendText(blocks, s.Content)
	}
	if blocks = append(blocks, c.(*anthropicWriter).system...); len(blocks) > 0 {
		if err := e.encodeSystem(&r, "anthropic", &blocks); err != nil {
			return Rendered{}, fmt.Errorf("render anthropic system: %w", err)
		}
	}
	return r, nil
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content anthropicContent `json:"content"`
}

// AnthropicBlock is any block of content; which members it has follows from
// its type.
type AnthropicBlock struct {
	Type      string           `json:"type"`
	Text      string           `json:"text,omitzero"`
	Thinking  *string          `json:"thinking,omitzero"`
	Signature turns.Raw        `json:"signature,omitzero"`
	Data      turns.Raw        `json:"data,omitzero"`
	Source    *anthropicSource `json:"source,omitzero"`
	ID        string           `json:"id,omitzero"`
	Name      string           `json:"name,omitzero"`
	Input     turns.Raw        `json:"input,omitzero"`
	ToolUseID string           `json:"tool_use_id,omitzero"`
	Content   anthropicContent `json:"content,omitzero"`
	IsError   bool             `json:"is_error,omitzero"`
}

// anthropicContent is a list of blocks that is written as a string where it is
// one text, and read from either form.
type anthropicContent []AnthropicBlock

func (c anthropicContent) MarshalJSONTo(e *jsontext.Encoder) error {
	if len(c) == 1 && c[0].Type == "text" {
		return e.WriteToken(jsontext.String(c[0].Text))
	}
	return json.MarshalEncode(e, []AnthropicBlock(c))
}

func (c *anthropicContent) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '"' {
		return json.UnmarshalDecode(d, (*[]AnthropicBlock)(c))
	}
	var s string
	if err := json.UnmarshalDecode(d, &s); err != nil {
		return err
	}
	*c = anthropicContent{{Type: "text", Text: s}}
	return nil
}

type anthropicSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitzero"`
	Data      string `json:"data,omitzero"`
	URL       string `json:"url,omitzero"`
}

func (b *AnthropicBlock) isThinking() bool {
	return b.Type == "thinking" || b.Type == "redacted_thinking"
}

type anthropicWriter struct {
	system   []AnthropicBlock // of the system messages that the context begins with
	begun    bool             // something followed them
	messages []*anthropicMessage
	ids      wireIDs
}

// clone implements [converter]. Later exchanges change the last message, and the one
// before it if the last is removed.
func (w *anthropicWriter) clone() converter {
	c := &anthropicWriter{slices.Clip(w.system), w.begun, slices.Clone(w.messages), w.ids.clone()}
	for i := max(0, len(c.messages)-2); i < len(c.messages); i++ {
		c.messages[i] = &anthropicMessage{c.messages[i].Role, slices.Clone(c.messages[i].Content)}
	}
	return c
}

func (w *anthropicWriter) exchange(x *exchange) {
	if x.role == turns.System && !w.begun {
		for _, p := range x.parts {
			w.system = appendText(w.system, plain.Text(p))
		}
		return
	}
	w.begun = true
	if x.role != turns.Assistant {
		w.addBlocks("user", userBlocks(x))
		return
	}
	ids := w.ids.assign(x.calls)
	w.addBlocks("assistant", assistantBlocks(x, ids))
	var results []AnthropicBlock
	for i, r := range x.results {
		if r != nil {
			results = append(results, anthropicResult(r, ids[i]))
		}
	}
	w.addBlocks("user", results)
}

// addBlocks adds blocks to the last message, or to a new one if the last has the other
// role.
func (w *anthropicWriter) addBlocks(role string, blocks []AnthropicBlock) {
	if len(blocks) == 0 {
		return
	}
	if n := len(w.messages); n > 0 && w.messages[n-1].Role != role {
		w.closeThinking()
	}
	if n := len(w.messages); n > 0 && w.messages[n-1].Role == role {
		w.messages[n-1].Content = append(w.messages[n-1].Content, blocks...)
		return
	}
	w.messages = append(w.messages, &anthropicMessage{role, blocks})
}

// closeThinking removes the thinking blocks at the end of the last message, and the
// message if it holds nothing else.
func (w *anthropicWriter) closeThinking() {
	n := len(w.messages) - 1
	c := w.messages[n].Content
	for len(c) > 0 && c[len(c)-1].isThinking() {
		c = c[:len(c)-1]
	}
	if w.messages[n].Content = c; len(c) == 0 {
		w.messages = w.messages[:n]
	}
}

func (w *anthropicWriter) end() []any {
	if len(w.messages) > 0 {
		w.closeThinking()
	}
	if n := len(w.messages); n > 0 && w.messages[n-1].Role == "assistant" {
		c := w.messages[n-1].Content
		if last := &c[len(c)-1]; last.Type == "text" {
			last.Text = strings.TrimRightFunc(last.Text, plain.IsSpace)
		}
	}
	return pointers(w.messages)
}

func appendText(to []AnthropicBlock, s string) []AnthropicBlock {
	if plain.IsBlank(s) {
		return to
	}
	return append(to, AnthropicBlock{Type: "text", Text: s})
}

func assistantBlocks(x *exchange, ids []string) []AnthropicBlock {
	var out []AnthropicBlock
	for _, p := range x.parts {
		switch p.Type {
		case turns.ToolCall:
			out = append(out, AnthropicBlock{Type: "tool_use", ID: ids[0], Name: plain.ToolName(p.Name, anthropicToolName), Input: plain.Object(plain.Arguments(p))})
			ids = ids[1:]
		case turns.Reasoning:
			if b, ok := AnthropicThinking(p); ok {
				out = append(out, b)
			}
		default:
			out = appendText(out, plain.Text(p))
		}
	}
	return out
}

func userBlocks(x *exchange) []AnthropicBlock {
	var out []AnthropicBlock
	for _, p := range x.parts {
		if x.role == turns.System {
			if s := plain.Text(p); !plain.IsBlank(s) {
				out = appendText(out, markSystem+s)
			}
			continue
		}
		if b, ok := AnthropicMedia(p); ok {
			out = append(out, b)
		} else {
			out = appendText(out, plain.Text(p))
		}
	}
	return out
}

// AnthropicThinking returns the signed block that p was made from. Text, signature and
// data must be those of the provider, which refuses others.
func AnthropicThinking(p *turns.Part) (AnthropicBlock, bool) {
	var ext struct {
		Signature turns.Raw `json:"signature"`
		Data      turns.Raw `json:"data"`
	}
	if p.Ref != nil || !plain.Ext(p, "anthropic", &ext) {
		return AnthropicBlock{}, false
	}
	if s, ok := ext.Signature.Text(); ok && s != "" {
		return AnthropicBlock{Type: "thinking", Thinking: &p.Content, Signature: ext.Signature}, true
	}
	if s, ok := ext.Data.Text(); ok && s != "" {
		return AnthropicBlock{Type: "redacted_thinking", Data: ext.Data}, true
	}
	return AnthropicBlock{}, false
}

// AnthropicMedia returns the image or document block of p.
func AnthropicMedia(p *turns.Part) (AnthropicBlock, bool) {
	if s := pdfOf(p); s != nil {
		return AnthropicBlock{Type: "document", Source: s}, true
	}
	pic, ok := plain.PictureOf(p)
	switch {
	case !ok || len(pic.Base64) > anthropicImage:
		return AnthropicBlock{}, false
	case pic.URL != "":
		return AnthropicBlock{Type: "image", Source: &anthropicSource{Type: "url", URL: pic.URL}}, true
	}
	return AnthropicBlock{Type: "image", Source: &anthropicSource{Type: "base64", MediaType: pic.MIME, Data: pic.Base64}}, true
}

// pdfOf returns the source of a PDF, the one kind of document that accepts bytes or an
// address. It returns nil if p is none.
func pdfOf(p *turns.Part) *anthropicSource {
	web := strings.HasPrefix(p.Content, "https://") // the provider fetches no other
	switch {
	case p.Ref != nil:
	case p.Type == turns.Blob && len(p.Data) > 0 && p.MimeType == mimePDF:
		return &anthropicSource{Type: "base64", MediaType: mimePDF, Data: base64.StdEncoding.EncodeToString(p.Data)}
	case p.Type == turns.URI && web && (p.MimeType == mimePDF || p.Modality == "document"):
		return &anthropicSource{Type: "url", URL: p.Content}
	}
	return nil
}

// anthropicResult returns the tool_result block of r: a string for one text, no content
// for a blank one, else blocks.
func anthropicResult(r *turns.Part, id string) AnthropicBlock {
	var c anthropicContent
	parts := plain.ResultParts(r)
	for i := range parts {
		if b, ok := AnthropicMedia(&parts[i]); ok && !r.IsError {
			c = append(c, b)
		} else {
			c = appendText(c, plain.Text(&parts[i]))
		}
	}
	if len(c) == 0 && r.IsError {
		c = appendText(c, markFailed)
	}
	return AnthropicBlock{Type: "tool_result", ToolUseID: id, IsError: r.IsError, Content: c}
}
