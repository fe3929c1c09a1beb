package interchange

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
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
	if err := decodeLoose(messages, &in); err != nil {
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

// decodeLoose reads JSON that others wrote: as strict as [turns.DecodeJSON] on
// the JSON itself, but members that v does not know are passed over.
func decodeLoose(data []byte, v any) error {
	var raw turns.Raw
	if err := turns.DecodeJSON(data, &raw); err != nil {
		return err
	}
	err := json.Unmarshal(raw, v)
	if err == nil || errors.Is(err, turns.ErrUnsupported) || errors.Is(err, turns.ErrMalformed) {
		return err
	}
	var odd *json.SemanticError
	if errors.As(err, &odd) && odd.JSONPointer != "" && odd.JSONKind != 0 {
		return fmt.Errorf("%w: %s is %s here", turns.ErrMalformed, odd.JSONPointer, kindName(odd.JSONKind))
	}
	return fmt.Errorf("%w: %w", turns.ErrMalformed, err)
}

// kindName returns the name of a kind of JSON value.
func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "true or false"
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
		out.Parts = append(out.Parts, turns.Part{Type: turns.ToolCall, ID: c.ID, Name: c.Function.Name, Arguments: argumentsText(c.Function.Arguments)})
	}
	return out, nil
}

// argumentsText returns the arguments of a call from the text that the model wrote, which
// may be no JSON.
func argumentsText(s string) turns.Raw {
	if isBlank(s) {
		return turns.Raw("{}")
	}
	var v turns.Raw
	if turns.DecodeJSON([]byte(s), &v) != nil {
		return turns.RawText(s)
	}
	return v
}

func (m *openaiMessage) toolMessage() (turns.Message, error) {
	parts, err := m.Content.parts()
	if err != nil {
		return turns.Message{}, err
	}
	response, err := resultOf(parts)
	return turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: m.ToolCallID, Name: m.Name, Response: response}}}, err
}

// resultOf is the response that [resultParts] takes apart again: a string for
// at most one text, else a list of parts.
func resultOf(parts []turns.Part) (turns.Raw, error) {
	switch {
	case len(parts) == 0:
		return turns.RawText(""), nil
	case len(parts) == 1 && parts[0].Type == turns.Text:
		return turns.RawText(parts[0].Content), nil
	}
	b, err := turns.EncodeJSON(turns.Message{Parts: parts})
	if err != nil {
		return nil, err
	}
	var m struct {
		Parts turns.Raw `json:"parts"`
	}
	err = json.Unmarshal(b, &m)
	return m.Parts, err
}

func (c openaiContent) parts() ([]turns.Part, error) {
	var out []turns.Part
	for _, p := range c {
		switch {
		case p.Type == "text":
			out = append(out, turns.TextPart(p.Text))
		case p.Type == "image_url" && p.ImageURL != nil:
			out = append(out, imagePart(p.ImageURL.URL))
		default:
			return nil, fmt.Errorf("%w: content of type %q", turns.ErrUnsupported, p.Type)
		}
	}
	return out, nil
}

// imagePart returns an image by its address, and a blob if the address holds the bytes.
func imagePart(url string) turns.Part {
	if mime, data, ok := dataURI(url); ok && mime != "" {
		b, _ := base64.StdEncoding.Strict().DecodeString(data) // dataURI has tried it
		return turns.Part{Type: turns.Blob, Modality: "image", MimeType: mime, Data: b}
	}
	return turns.Part{Type: turns.URI, Modality: "image", Content: url}
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
