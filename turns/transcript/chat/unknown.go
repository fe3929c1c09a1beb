package chat

import (
	"errors"
	"slices"
	"strconv"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// knownBlocks are the types of content that the readers of messages take, by form.
var knownBlocks = map[Form][]string{
	OpenAI:    {"text", "image_url"},
	Anthropic: {"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document"},
}

// withoutUnknown reads a conversation with read, and once more with what read does not know
// kept as text, so that one block does not take the conversation with it.
func (v *conversation) withoutUnknown(form Form, read func(messages turns.Raw) ([]turns.Section, []turns.Message, error)) ([]turns.Section, []turns.Message, error) {
	system, ms, err := read(v.messages)
	if !errors.Is(err, turns.ErrUnsupported) {
		return system, ms, err
	}
	var list []map[string]turns.Raw
	if values.Decode(v.messages, &list) != nil {
		return system, ms, err
	}
	changed := 0
	for _, m := range list {
		m["content"] = v.knownContent(form, m["content"], &changed)
		m["tool_calls"] = v.knownCalls(m["tool_calls"], &changed)
		for _, name := range []string{"content", "tool_calls"} {
			if m[name] == nil {
				delete(m, name)
			}
		}
	}
	b, encodeErr := turns.EncodeJSON(list)
	if changed == 0 || encodeErr != nil {
		return system, ms, err
	}
	return read(b)
}

// knownContent returns a content whose blocks of unknown types are texts.
func (v *conversation) knownContent(form Form, raw turns.Raw, changed *int) turns.Raw {
	var blocks []turns.Raw
	if raw.Kind() != '[' || turns.DecodeJSON(raw, &blocks) != nil {
		return raw
	}
	for i, b := range blocks {
		var m map[string]turns.Raw
		if values.Decode(b, &m) != nil {
			continue
		}
		switch kind := textMember(m, "type"); {
		case kind == "refusal":
			blocks[i] = values.Encoded(map[string]turns.Raw{"type": turns.RawText("text"), "text": turns.RawText(values.Text(m["refusal"]))})
			*changed++
		case !slices.Contains(knownBlocks[form], kind):
			v.loss = append(v.loss, transcript.Loss{Kind: "repaired", Reason: "content of type " + strconv.Quote(values.Clipped(kind, 80)) + " is kept as its JSON", Record: v.id})
			blocks[i] = values.Encoded(map[string]turns.Raw{"type": turns.RawText("text"), "text": turns.RawText(string(b))})
			*changed++
		case kind == "tool_result":
			m["content"] = v.knownContent(form, m["content"], changed)
			if m["content"] == nil {
				delete(m, "content")
			}
			blocks[i] = values.Encoded(m)
		}
	}
	return values.Encoded(blocks)
}

// knownCalls returns calls of OpenAI's form, those with free text as their input as calls of
// functions.
func (v *conversation) knownCalls(raw turns.Raw, changed *int) turns.Raw {
	var calls []map[string]turns.Raw
	if raw.Kind() != '[' || values.Decode(raw, &calls) != nil {
		return raw
	}
	for i, c := range calls {
		kind := textMember(c, "type")
		if kind == "" || kind == "function" {
			continue
		}
		var inner map[string]turns.Raw
		_ = values.Decode(c[kind], &inner) // what it can't be is empty
		name := textMember(inner, "name")
		if name == "" {
			name = kind
		}
		arguments := values.Encoded(inner)
		if in := inner["input"]; in != nil {
			arguments = values.Encoded(map[string]turns.Raw{"input": in})
		}
		calls[i] = map[string]turns.Raw{"id": c["id"], "type": turns.RawText("function"), "function": values.Encoded(map[string]turns.Raw{"name": turns.RawText(name), "arguments": turns.RawText(string(arguments))})}
		v.loss = append(v.loss, transcript.Loss{Kind: "repaired", Reason: "a tool call of type " + strconv.Quote(values.Clipped(kind, 80)) + " is kept as one of a function", Record: v.id})
		*changed++
	}
	return values.Encoded(calls)
}
