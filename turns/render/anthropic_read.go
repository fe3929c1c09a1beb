package render

import (
	"encoding/base64"
	"fmt"

	"nexus/turns"
	"nexus/turns/internal/plain"
	"nexus/turns/internal/values"
)

// FromAnthropic reads the system member (nil: none) and the messages of a
// Messages request. A user message's tool results become a tool message, what
// else it holds a user message after that. Signed and redacted thinking keep
// their bytes in ext.anthropic. Members without a place are dropped
// (cache_control, citations). A section has no name.
//
// Errors: [turns.ErrMalformed], [turns.ErrTooLarge]; [turns.ErrUnsupported]
// for a kind of block that has no part of ours (server tools, documents in plain text).
func FromAnthropic(system, messages []byte) ([]turns.Section, []turns.Message, error) {
	var sections []turns.Section
	if system != nil {
		var c anthropicContent
		if err := values.Decode(system, &c); err != nil {
			return nil, nil, fmt.Errorf("read anthropic system: %w", err)
		}
		for _, b := range c {
			if b.Type != "text" {
				return nil, nil, fmt.Errorf("read anthropic system: %w: block of type %q", turns.ErrUnsupported, b.Type)
			}
			sections = append(sections, turns.Section{Content: b.Text})
		}
	}
	var in []anthropicMessage
	if err := values.Decode(messages, &in); err != nil {
		return nil, nil, fmt.Errorf("read anthropic messages: %w", err)
	}
	var out []turns.Message
	for i := range in {
		ms, err := in[i].messages()
		for j := range ms {
			if err == nil {
				err = ms[j].Validate(fmt.Sprintf("/%d", i))
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read anthropic message %d: %w", i, err)
		}
		out = append(out, ms...)
	}
	return sections, out, nil
}

func (m *anthropicMessage) messages() ([]turns.Message, error) {
	var said, results []turns.Part
	for i := range m.Content {
		p, err := m.Content[i].part()
		if err != nil {
			return nil, err
		}
		if p.Type == turns.ToolCallResponse && m.Role == "user" {
			results = append(results, p)
		} else {
			said = append(said, p)
		}
	}
	role := turns.User
	switch m.Role {
	case "user":
	case "assistant":
		role = turns.Assistant
	default:
		return nil, fmt.Errorf("%w: role %q", turns.ErrUnsupported, m.Role)
	}
	var out []turns.Message
	if len(results) > 0 {
		out = append(out, turns.Message{Role: turns.Tool, Parts: results})
	}
	if len(said) > 0 || len(results) == 0 {
		out = append(out, turns.Message{Role: role, Parts: said})
	}
	return out, nil
}

func (b *AnthropicBlock) part() (turns.Part, error) {
	switch b.Type {
	case "text":
		return turns.TextPart(b.Text), nil
	case "thinking":
		p := turns.Part{Type: turns.Reasoning}
		if b.Thinking != nil {
			p.Content = *b.Thinking
		}
		if s, ok := b.Signature.Text(); ok && s != "" {
			p.Ext = anthropicExt("signature", b.Signature)
		}
		return p, nil
	case "redacted_thinking":
		return turns.Part{Type: turns.Reasoning, Ext: anthropicExt("data", b.Data)}, nil
	case "tool_use":
		p := turns.Part{Type: turns.ToolCall, ID: b.ID, Name: b.Name, Arguments: b.Input}
		if b.Input == nil {
			p.Arguments = turns.Raw("{}")
		}
		return p, nil
	case "tool_result":
		var parts []turns.Part
		for i := range b.Content {
			p, err := b.Content[i].part()
			if err != nil {
				return p, err
			}
			switch p.Type {
			case turns.Text, turns.Blob, turns.URI:
				parts = append(parts, p)
			default:
				return p, fmt.Errorf("%w: block of type %q in a tool result", turns.ErrUnsupported, b.Content[i].Type)
			}
		}
		response, err := plain.ResultOf(parts)
		return turns.Part{Type: turns.ToolCallResponse, ID: b.ToolUseID, Response: response, IsError: b.IsError}, err
	case "image", "document":
		return b.media()
	}
	return turns.Part{}, fmt.Errorf("%w: block of type %q", turns.ErrUnsupported, b.Type)
}

func (b *AnthropicBlock) media() (turns.Part, error) {
	switch s := b.Source; {
	case s != nil && s.Type == "url":
		return turns.Part{Type: turns.URI, Modality: b.Type, Content: s.URL}, nil
	case s != nil && s.Type == "base64":
		data, err := base64.StdEncoding.Strict().DecodeString(s.Data)
		if err != nil {
			return turns.Part{}, fmt.Errorf("%w: %s: %w", turns.ErrMalformed, b.Type, err)
		}
		return turns.Part{Type: turns.Blob, Modality: b.Type, MimeType: s.MediaType, Data: data}, nil
	}
	return turns.Part{}, fmt.Errorf("%w: source of a %s", turns.ErrUnsupported, b.Type)
}

// anthropicExt is {"anthropic":{member: v}}; nil where v is absent.
func anthropicExt(member string, v turns.Raw) turns.Raw {
	if v == nil {
		return nil
	}
	return append(append(turns.Raw(`{"anthropic":{"`+member+`":`), v...), "}}"...)
}
