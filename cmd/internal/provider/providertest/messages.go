package providertest

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns/render/strict"
)

// messages is Anthropic's messages.
type messages struct{}

func (messages) kind() string { return Messages }

func (messages) read(c *Call, body map[string]jsontext.Value) error {
	var most int
	if err := decode(body["max_tokens"], &most); err != nil || most < 1 {
		return fmt.Errorf("max_tokens: field required")
	}
	if c.Header["Anthropic-Version"] == nil {
		return fmt.Errorf("anthropic-version: header is required")
	}
	system := body["system"]
	text, _, err := chatContent(system)
	if err != nil {
		return fmt.Errorf("system: %w", err)
	}
	c.System = text
	var ms []struct {
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"`
	}
	if err := decode(body["messages"], &ms); err != nil {
		return fmt.Errorf("messages: %w", err)
	}
	for _, m := range ms {
		c.Turns++
		c.Results = nil
		text, images, err := chatContent(m.Content)
		if err != nil {
			return fmt.Errorf("content: %w", err)
		}
		if m.Role != "user" {
			continue
		}
		var blocks []struct {
			Type    string         `json:"type"`
			Content jsontext.Value `json:"content"`
		}
		if m.Content.Kind() == '[' {
			if err := decode(m.Content, &blocks); err != nil {
				return err
			}
		}
		for _, b := range blocks {
			if b.Type == "tool_result" {
				result, _, err := chatContent(b.Content)
				if err != nil {
					return err
				}
				c.Results = append(c.Results, result)
			}
		}
		if text != "" || images > 0 {
			c.Prompt, c.Images = text, images
			c.Results = nil
		}
	}
	if v := body["tools"]; v != nil {
		var tools []struct {
			Name   string `json:"name"`
			Schema struct {
				Type     string   `json:"type"`
				Required []string `json:"required"`
			} `json:"input_schema"`
		}
		if err := decode(v, &tools); err != nil {
			return fmt.Errorf("tools: %w", err)
		}
		for i, t := range tools {
			if t.Schema.Type != "object" {
				return fmt.Errorf("tools.%d.input_schema.type: field required", i)
			}
			c.Tools = append(c.Tools, Tool{Name: t.Name, Required: t.Schema.Required})
		}
	}
	if v := body["tool_choice"]; v != nil {
		var ch struct {
			Type string `json:"type"`
			Name string `json:"name"`
		}
		if err := choice(c, v, &ch, func() string {
			return map[string]string{"auto": "auto", "any": "required", "none": "none", "tool": ch.Name}[ch.Type]
		}); err != nil {
			return err
		}
	}
	var options []strict.Option
	if body["thinking"] != nil {
		options = append(options, strict.Thinking)
	}
	return strict.Anthropic(system, body["messages"], options...)
}

func (messages) fail(w http.ResponseWriter, f Failure) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = w.Write(encode(messagesError(f)))
}

func messagesError(f Failure) map[string]any {
	return map[string]any{"type": "error", "error": map[string]any{"type": f.Code, "message": f.Message}}
}

func (d messages) begin(st *stream) {
	m := d.message(st, []any{})
	m["stop_reason"] = nil
	st.event("message_start", map[string]any{"type": "message_start", "message": m})
	st.event("ping", map[string]any{"type": "ping"})
}

func (d messages) piece(st *stream, p piece) {
	if p.first {
		block := d.block(p, "")
		delete(block, "signature")
		if p.kind == callPiece {
			block["input"] = map[string]any{}
		}
		st.event("content_block_start", map[string]any{"type": "content_block_start", "index": p.index, "content_block": block})
	}
	var delta map[string]any
	switch p.kind {
	case reasoningPiece:
		delta = map[string]any{"type": "thinking_delta", "thinking": p.text}
	case callPiece:
		delta = map[string]any{"type": "input_json_delta", "partial_json": p.text}
	default:
		delta = map[string]any{"type": "text_delta", "text": p.text}
	}
	d.delta(st, p, delta)
	if !p.last {
		return
	}
	if p.kind == reasoningPiece {
		d.delta(st, p, map[string]any{"type": "signature_delta", "signature": Signature(st.part(p.index))})
	}
	st.event("content_block_stop", map[string]any{"type": "content_block_stop", "index": p.index})
}

func (messages) delta(st *stream, p piece, delta map[string]any) {
	st.event("content_block_delta", map[string]any{"type": "content_block_delta", "index": p.index, "delta": delta})
}

// block is a block of the answer's content.
func (messages) block(p piece, text string) map[string]any {
	switch p.kind {
	case reasoningPiece:
		return map[string]any{"type": "thinking", "thinking": text, "signature": Signature(text)}
	case callPiece:
		return map[string]any{"type": "tool_use", "id": p.call.ID, "name": p.call.Name, "input": jsontext.Value(text)}
	}
	return map[string]any{"type": "text", "text": text}
}

func (messages) failLate(st *stream, f Failure) { st.event("error", messagesError(f)) }

func (messages) reason(a Answer) string {
	switch {
	case a.Length:
		return "max_tokens"
	case len(a.Calls) > 0:
		return "tool_use"
	case len(a.Refusal) > 0:
		return "refusal"
	}
	return "end_turn"
}

func (d messages) end(st *stream) {
	u := st.call.count(st.answer)
	st.event("message_delta", map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": d.reason(st.answer), "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": u.out}})
	st.event("message_stop", map[string]any{"type": "message_stop"})
}

func (d messages) message(st *stream, content []any) map[string]any {
	u := st.call.count(st.answer)
	return map[string]any{"id": st.id("msg_"), "type": "message", "role": "assistant", "model": st.call.Model, "content": content, "stop_reason": d.reason(st.answer), "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": u.in - u.cached, "cache_read_input_tokens": u.cached, "cache_creation_input_tokens": 0, "output_tokens": u.out}}
}

func (d messages) whole(st *stream) any {
	content := []any{}
	for _, p := range st.pieces {
		if p.last {
			content = append(content, d.block(p, st.part(p.index)))
		}
	}
	return d.message(st, content)
}
