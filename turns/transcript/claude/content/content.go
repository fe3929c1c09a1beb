package content

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// Ext returns the Ext of a part: what only Anthropic may see, and the members of
// the source that a part has no field for.
func Ext(anthropic, rest values.Object) turns.Raw {
	var o values.Object
	if len(anthropic) > 0 {
		o = append(o, values.Member{Name: "anthropic", Value: anthropic.Raw()})
	}
	if len(rest) > 0 {
		o = append(o, values.Member{Name: "claude-code", Value: rest.Raw()})
	}
	if o == nil {
		return nil
	}
	return o.Raw()
}

// Part returns the part for one content block of a message of a role. A block
// without a counterpart becomes a text part with the whole block in Ext; repaired then
// says why.
func Part(role turns.Role, block turns.Raw) (p turns.Part, repaired string) {
	p, repaired = Unchecked(block)
	if repaired == "" && (p.Type == turns.ToolCall) && role != turns.Assistant {
		repaired = "a tool call outside an assistant message"
	}
	if repaired == "" {
		m := turns.Message{Role: role, Parts: []turns.Part{p}}
		if err := m.Validate(""); err != nil {
			repaired = fmt.Sprintf("a %s that the ledger can't hold as one: %v", p.Type, err)
		}
	}
	if repaired == "" {
		return p, ""
	}
	return Opaque(block), repaired
}

// Opaque returns a text part in place of a block of another kind.
func Opaque(block turns.Raw) turns.Part {
	typ := values.Members(block).Text("type")
	if typ == "" {
		typ = "unnamed"
	}
	typ = strings.ToValidUTF8(values.Clipped(typ, 80), "")
	p := turns.Part{Type: turns.Text, Content: "[claude-code: " + typ + " block]"}
	p.Ext = Ext(nil, values.Object{{Name: "block", Value: block}})
	m := turns.Message{Role: turns.User, Parts: []turns.Part{p}}
	if m.Validate("") != nil { // nested too deep to be JSON here: as text then
		p.Ext, p.Content = nil, p.Content+"\n"+strings.ToValidUTF8(string(block), "\uFFFD")
	}
	return p
}

// Unchecked returns the part for a block, which a message of the ledger may not take. repaired
// says why the block has no counterpart.
func Unchecked(block turns.Raw) (p turns.Part, repaired string) {
	if block.Kind() == '"' {
		return turns.TextPart(values.String(block)), ""
	}
	o := values.Members(block)
	typ := o.Text("type")
	switch typ {
	case "text":
		if o.Get("text").Kind() != '"' {
			return p, "a text block without text"
		}
		p = turns.TextPart(o.Text("text"))
		p.Ext = Ext(nil, o.Without("type", "text"))
	case "thinking":
		p = turns.Part{Type: turns.Reasoning, Content: o.Text("thinking")}
		var sig values.Object
		if s := o.Get("signature"); s != nil {
			sig = values.Object{{Name: "signature", Value: s}}
		}
		p.Ext = Ext(sig, o.Without("type", "thinking", "signature"))
	case "redacted_thinking":
		p = turns.Part{Type: turns.Reasoning}
		if o.Get("data") == nil {
			return p, "a redacted_thinking block without data"
		}
		p.Ext = Ext(values.Object{{Name: "data", Value: o.Get("data")}}, o.Without("type", "data"))
	case "tool_use":
		p = turns.Part{Type: turns.ToolCall, ID: o.Text("id"), Name: values.ToolName(o.Text("name")), Arguments: o.Get("input")}
		if p.Arguments == nil {
			p.Arguments = turns.Raw("{}")
		}
		used := []string{"type", "id", "input"}
		if p.Name == o.Text("name") {
			used = append(used, "name")
		}
		p.Ext = Ext(nil, o.Without(used...))
	case "tool_result":
		p = turns.Part{Type: turns.ToolCallResponse, ID: o.Text("tool_use_id"), IsError: values.IsTrue(o.Get("is_error"))}
		p.Response = toolResponse(o.Get("content"))
		p.Ext = Ext(nil, o.Without("type", "tool_use_id", "content", "is_error"))
	case "image", "document":
		return mediaPart(typ, o)
	default:
		return p, fmt.Sprintf("a block of the type %q", values.Clipped(typ, 80))
	}
	return p, ""
}

// mediaPart returns the part for an image or document block.
func mediaPart(modality string, o values.Object) (turns.Part, string) {
	src := values.Members(o.Get("source"))
	var p turns.Part
	var used []string
	switch kind := src.Text("type"); kind {
	case "base64":
		data, err := base64.StdEncoding.Strict().DecodeString(src.Text("data"))
		if err != nil || bytes.ContainsAny([]byte(src.Text("data")), "\r\n") {
			return p, "an " + modality + " whose data is not base64"
		}
		p = turns.Part{Type: turns.Blob, Modality: modality, MimeType: src.Text("media_type"), Data: data}
		used = []string{"type", "media_type", "data"}
	case "url":
		p = turns.Part{Type: turns.URI, Modality: modality, Content: src.Text("url")}
		used = []string{"type", "url"}
	case "file":
		p = turns.Part{Type: turns.File, Modality: modality, Content: src.Text("file_id")}
		used = []string{"type", "file_id"}
	case "text":
		p = turns.TextPart(src.Text("data"))
		used = []string{"type", "data"}
	default:
		return p, fmt.Sprintf("an %s with a source of the type %q", modality, values.Clipped(kind, 80))
	}
	rest := o.Without("type", "source")
	if left := src.Without(used...); len(left) > 0 {
		rest = append(rest, values.Member{Name: "source", Value: left.Raw()})
	}
	p.Ext = Ext(nil, rest)
	return p, ""
}

// toolResponse returns the response of a tool result: a string unchanged, a list as the
// list of its parts, and an empty string for no content.
func toolResponse(content turns.Raw) turns.Raw {
	switch content.Kind() {
	case 0, 'n':
		return turns.Raw(`""`)
	case '[':
	default:
		return content
	}
	var blocks []turns.Raw
	if err := json.Unmarshal(content, &blocks); err != nil {
		return content
	}
	parts := make([]turns.Part, len(blocks))
	for i, b := range blocks {
		parts[i], _ = Part(turns.User, b)
	}
	b, err := turns.EncodeJSON(turns.Message{Role: turns.Tool, Parts: parts})
	if err != nil {
		return content
	}
	return values.Members(b).Get("parts")
}

// CountUnknown returns the number of blocks in a tool result without a counterpart.
func CountUnknown(result turns.Raw) (n int) {
	content := values.Members(result).Get("content")
	var blocks []turns.Raw
	if content.Kind() != '[' || json.Unmarshal(content, &blocks) != nil {
		return 0
	}
	for _, b := range blocks {
		if _, repaired := Part(turns.User, b); repaired != "" {
			n++
		}
	}
	return n
}

// Word returns s if it is valid as a finish reason or model name, else "".
func Word(s string) string {
	m := turns.Message{Role: turns.Assistant, FinishReason: s}
	if m.Validate("") != nil {
		return ""
	}
	return s
}
