package chat

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// Sniff reports whether head, the first bytes of a file, looks like chat
// JSON of this form.
func Sniff(head []byte, form Form) bool {
	d := jsontext.NewDecoder(bytes.NewReader(head))
	list := d.PeekKind() == '['
	if list {
		if _, err := d.ReadToken(); err != nil {
			return false
		}
	}
	if list && isGeminiHistory(head) || !chatObject(d, list) {
		return false
	}
	return chatForm(head) == form
}

// isGeminiHistory reports whether head begins a list of contents as requests to Gemini hold
// them. Gemini CLI writes a copy of a chat so (/chat save), beside the chat itself.
func isGeminiHistory(head []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(head))
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	v, err := d.ReadValue()
	var m struct {
		Parts []map[string]turns.Raw `json:"parts"`
	}
	return err == nil && values.Decode(v, &m) == nil && len(m.Parts) > 0 && m.Parts[0]["type"] == nil
}

// chatObject reports whether the next value is an object that holds messages,
// or, in a list, a message; a value that head cuts short is looked through as text.
func chatObject(d *jsontext.Decoder, list bool) bool {
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return false
		}
		switch t.String() {
		case "role":
			if list {
				return d.PeekKind() == '"'
			}
		case "messages", "traj", "gen_ai.input.messages", "gen_ai.output.messages", "resourceSpans", "resourceLogs":
			k := d.PeekKind()
			return k == '[' || k == '"'
		case "attributes", "context", "traceId": // of a span
			return true
		}
		if d.SkipValue() != nil {
			rest := d.UnreadBuffer()
			return bytes.Contains(rest, []byte(`"messages":`)) || bytes.Contains(rest, []byte(`"traj":`))
		}
	}
	return false
}

// chatForm returns the form of messages, by the names in them.
func chatForm(head []byte) Form {
	names := make(map[string]bool)
	d := jsontext.NewDecoder(bytes.NewReader(head))
	for range 4000 {
		t, err := d.ReadToken()
		if err != nil {
			break
		}
		if t.Kind() == '"' && len(names) < 1000 {
			names[t.String()] = true
		}
	}
	has := func(s ...string) bool { return slices.ContainsFunc(s, func(s string) bool { return names[s] }) }
	switch {
	case has("parts", "gen_ai.input.messages", "resourceSpans", "resourceLogs", "traceId", "gen_ai.operation.name"):
		return OTel
	case has("tool_calls", "tool_call_id"):
		return OpenAI
	case has("tool_use", "tool_result", "thinking", "redacted_thinking", "input_schema", "cache_control"):
		return Anthropic
	}
	return OpenAI
}
