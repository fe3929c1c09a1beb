package render

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/plain"
	"nexus/turns/internal/values"
)

// FromOpenAI reads the messages of a chat completions request, or of a stored
// transcript in that form: a JSON array.
//
// developer becomes system. reasoning_content (DeepSeek and others) becomes a
// reasoning part, refusal a text. Arguments that are not JSON are kept as a
// JSON string, none at all as {}. Other members are dropped
// (cache_control, annotations). It repairs nothing else:
// calls and results may not pair.
//
// Errors: [turns.ErrMalformed], [turns.ErrTooLarge]; [turns.ErrUnsupported]
// for a kind of content that has no part of ours (audio, custom tools).
func FromOpenAI(messages []byte) ([]turns.Message, error) {
	var in []openaiMessage
	if err := values.Decode(messages, &in); err != nil {
		return nil, fmt.Errorf("read openai messages: %w", err)
	}
	out := make([]turns.Message, len(in))
	for i := range in {
		m, err := in[i].message()
		if err == nil {
			err = m.Validate(fmt.Sprintf("/%d", i))
		}
		if err != nil {
			return nil, fmt.Errorf("read openai message %d: %w", i, err)
		}
		out[i] = m
	}
	return out, nil
}

func (m *openaiMessage) message() (turns.Message, error) {
	out := turns.Message{Name: m.Name}
	switch m.Role {
	case "system", "developer":
		out.Role = turns.System
	case "user":
		out.Role = turns.User
	case "assistant":
		out.Role = turns.Assistant
	case "tool":
		return m.toolMessage()
	default:
		return out, fmt.Errorf("%w: role %q", turns.ErrUnsupported, m.Role)
	}
	if s, ok := turns.Raw(m.Reasoning).Text(); ok && s != "" {
		out.Parts = append(out.Parts, turns.Part{Type: turns.Reasoning, Content: s})
	}
	parts, err := m.Content.parts()
	if err != nil {
		return out, err
	}
	out.Parts = append(out.Parts, parts...)
	if m.Refusal != nil && *m.Refusal != "" {
		out.Parts = append(out.Parts, turns.TextPart(*m.Refusal))
	}
	for _, c := range m.ToolCalls {
		if c.Type != "" && c.Type != "function" {
			return out, fmt.Errorf("%w: tool call of type %q", turns.ErrUnsupported, c.Type)
		}
		out.Parts = append(out.Parts, turns.Part{Type: turns.ToolCall, ID: c.ID, Name: c.Function.Name, Arguments: plain.ArgumentsOf(c.Function.Arguments)})
	}
	return out, nil
}

func (m *openaiMessage) toolMessage() (turns.Message, error) {
	parts, err := m.Content.parts()
	if err != nil {
		return turns.Message{}, err
	}
	response, err := plain.ResultOf(parts)
	return turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: m.ToolCallID, Name: m.Name, Response: response}}}, err
}

func (c openaiContent) parts() ([]turns.Part, error) {
	var out []turns.Part
	for _, p := range c {
		switch {
		case p.Type == "text":
			out = append(out, turns.TextPart(p.Text))
		case p.Type == "image_url" && p.ImageURL != nil:
			out = append(out, plain.Image(p.ImageURL.URL))
		default:
			return nil, fmt.Errorf("%w: content of type %q", turns.ErrUnsupported, p.Type)
		}
	}
	return out, nil
}

// UnmarshalJSONFrom reads a string, null or a list.
func (c *openaiContent) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case 'n':
		return d.SkipValue()
	case '"':
		var s string
		if err := json.UnmarshalDecode(d, &s); err != nil {
			return err
		}
		*c = openaiContent{{Type: "text", Text: s}}
		return nil
	}
	return json.UnmarshalDecode(d, (*[]openaiPart)(c))
}
