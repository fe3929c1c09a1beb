package render

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/plain"
)

// Limits of OpenAI's chat completions, in bytes, from its error texts
// (strict/openai.go has them).
const (
	openaiCallID   = 40
	openaiToolName = 64
)

// OpenAI renders the messages of a chat completions request.
//
//   - Each section and each system message is a message of role system, where
//     it stands. System in [Rendered] is nil.
//   - Calls are tool_calls with their arguments as JSON text, whatever kind of
//     value they are; content is null where the message has calls only. One
//     tool message a result, in the order of the calls, directly after them;
//     other messages between them follow.
//   - A result that is not a string is its JSON text. is_error has no place in
//     the format and is left out; the text stands as it is.
//   - Images are image_url parts of user messages. One in a tool's result
//     is a marker there, and is shown in one user message after the last tool
//     message of the run. Elsewhere, and for other media, a placeholder.
//   - Reasoning is left out: chat completions takes none back.
//   - Empty texts, and messages that have nothing else, are left out.
//   - Ids over 40 bytes or used twice are replaced by derived ones; characters
//     that a function's name can't have become _.
//
// Errors: [ErrUnpaired], or what the encoder found (invalid UTF-8 or JSON).
func OpenAI(system []turns.Section, tools []turns.Raw, ms []turns.Message) (Rendered, error) {
	return (*Memo)(nil).OpenAI(system, tools, ms)
}

// OpenAI is [OpenAI] after the rendering of e.
func (e *Memo) OpenAI(system []turns.Section, tools []turns.Raw, ms []turns.Message) (Rendered, error) {
	w := &openaiWriter{ids: wireIDs{fits: func(id string) bool { return id != "" && len(id) <= openaiCallID }}}
	r, _, err := e.render("openai", w, tools, ms, func([]any) []any {
		var head openaiWriter
		for _, s := range system {
			head.addMessage("system", "", []openaiPart{{Type: "text", Text: s.Content}})
		}
		return head.end()
	})
	return r, err
}

type openaiMessage struct {
	Role       string         `json:"role"`
	Name       string         `json:"name,omitzero"`
	ToolCallID string         `json:"tool_call_id,omitzero"`
	Content    openaiContent  `json:"content"`
	ToolCalls  []openaiCall   `json:"tool_calls,omitempty"`
	Reasoning  jsontext.Value `json:"reasoning_content,omitzero"` // read only
	Refusal    *string        `json:"refusal,omitzero"`           // read only
}

type openaiCall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function openaiFunction `json:"function"`
}

type openaiFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type openaiPart struct {
	Type     string       `json:"type"`
	Text     string       `json:"text,omitzero"`
	ImageURL *openaiImage `json:"image_url,omitzero"`
}

type openaiImage struct {
	URL string `json:"url"`
}

// openaiContent is a list of parts that is written as a string where it is one
// text, and as null where it is nil.
type openaiContent []openaiPart

func (c openaiContent) MarshalJSONTo(e *jsontext.Encoder) error {
	switch {
	case c == nil:
		return e.WriteToken(jsontext.Null)
	case len(c) == 0:
		return e.WriteToken(jsontext.String(""))
	case len(c) == 1 && c[0].Type == "text":
		return e.WriteToken(jsontext.String(c[0].Text))
	}
	return json.MarshalEncode(e, []openaiPart(c))
}

type openaiWriter struct {
	messages []*openaiMessage
	ids      wireIDs
}

func (w *openaiWriter) clone() converter {
	return &openaiWriter{slices.Clip(w.messages), w.ids.clone()}
}

func (w *openaiWriter) end() []any { return pointers(w.messages) }

func (w *openaiWriter) exchange(x *exchange) {
	switch x.role {
	case turns.Assistant:
		w.assistant(x)
	case turns.System:
		w.addMessage("system", x.name, openaiParts(x.parts, false))
	default:
		w.addMessage("user", x.name, openaiParts(x.parts, true))
	}
}

// addMessage writes a message unless it is empty.
func (w *openaiWriter) addMessage(role, name string, parts []openaiPart) {
	var c openaiContent
	for _, p := range parts {
		if p.Type != "text" || p.Text != "" {
			c = append(c, p)
		}
	}
	if c != nil {
		w.messages = append(w.messages, &openaiMessage{Role: role, Name: openaiName(name), Content: c})
	}
}

func (w *openaiWriter) assistant(x *exchange) {
	if len(x.calls) == 0 {
		w.addMessage("assistant", x.name, openaiParts(x.parts, false))
		return
	}
	m := &openaiMessage{Role: "assistant", Name: openaiName(x.name)}
	for _, p := range openaiParts(x.parts, false) {
		if p.Text != "" {
			m.Content = append(m.Content, p)
		}
	}
	ids := w.ids.assign(x.calls)
	for i, c := range x.calls {
		args := string(plain.Arguments(c))
		if args == "" {
			args = "{}"
		}
		m.ToolCalls = append(m.ToolCalls, openaiCall{ID: ids[i], Type: "function",
			Function: openaiFunction{Name: plain.ToolName(c.Name, openaiToolName), Arguments: args}})
	}
	w.messages = append(w.messages, m)
	var shown []openaiPart
	for i, r := range x.results {
		if r == nil {
			continue
		}
		c := openaiContent{}
		for _, p := range plain.ResultParts(r) {
			switch pic, ok := plain.PictureOf(&p); {
			case ok:
				c = append(c, openaiPart{Type: "text", Text: "[image, shown after the tool results]"})
				shown = append(shown, openaiPart{Type: "text", Text: "[image from the result of " + ids[i] + "]"}, openaiPicture(pic))
			case plain.Text(&p) != "":
				c = append(c, openaiPart{Type: "text", Text: plain.Text(&p)})
			}
		}
		w.messages = append(w.messages, &openaiMessage{Role: "tool", ToolCallID: ids[i], Content: c})
	}
	// Not while calls are open: their results must follow without a break.
	if x.missing == 0 {
		w.addMessage("user", "", shown)
	}
}

// openaiParts converts parts that are neither calls nor results. Reasoning
// goes; images become placeholders unless they may be shown here.
func openaiParts(parts []*turns.Part, images bool) []openaiPart {
	var out []openaiPart
	for _, p := range parts {
		if p.Type == turns.ToolCall {
			continue
		}
		if images {
			if pic, ok := plain.PictureOf(p); ok {
				out = append(out, openaiPicture(pic))
				continue
			}
		}
		out = append(out, openaiPart{Type: "text", Text: plain.Text(p)})
	}
	return out
}

func openaiPicture(p plain.Picture) openaiPart {
	url := p.URL
	if url == "" {
		url = "data:" + p.MIME + ";base64," + p.Base64
	}
	return openaiPart{Type: "image_url", ImageURL: &openaiImage{URL: url}}
}

// openaiName returns name if the API accepts it (its pattern is ^[^\s<|\\/>]+$, at
// most 64), else "": the name is optional.
func openaiName(name string) string {
	if len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return plain.IsSpace(r) || strings.ContainsRune(`<|\/>`, r) }) {
		return ""
	}
	return name
}
