package providertest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns/render/strict"
)

// chat is OpenAI's chat completions.
type chat struct{}

func (chat) kind() string { return Chat }

// created is the time of every answer.
const created = 1_760_000_000

type chatPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// chatContent returns the text and the number of images of a message's content.
func chatContent(v jsontext.Value) (text string, images int, err error) {
	if v == nil || v.Kind() == 'n' {
		return "", 0, nil
	}
	if v.Kind() == '"' {
		err = decode(v, &text)
		return text, 0, err
	}
	var parts []chatPart
	err = decode(v, &parts)
	for _, p := range parts {
		text += p.Text
		if strings.Contains(p.Type, "image") {
			images++
		}
	}
	return text, images, err
}

func (chat) read(c *Call, body map[string]jsontext.Value) error {
	var ms []struct {
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"`
	}
	if err := decode(body["messages"], &ms); err != nil {
		return fmt.Errorf("messages: %w", err)
	}
	c.Turns = len(ms)
	for _, m := range ms {
		text, images, err := chatContent(m.Content)
		if err != nil {
			return fmt.Errorf("content: %w", err)
		}
		switch m.Role {
		case "system", "developer":
			c.System = paragraph(c.System, text)
			c.Turns--
		case "user":
			c.Prompt, c.Images, c.Results = text, images, nil
		case "assistant":
			c.Results = nil
		case "tool":
			c.Results = append(c.Results, text)
		}
	}
	if v := body["stream_options"]; v != nil {
		var o struct {
			Usage bool `json:"include_usage"`
		}
		if err := decode(v, &o); err != nil || !c.Stream {
			return fmt.Errorf("stream_options is for streams only: %v", err)
		}
		c.usage = o.Usage
	}
	if v := body["tools"]; v != nil {
		var tools []struct {
			Function toolJSON `json:"function"`
		}
		if err := decode(v, &tools); err != nil || len(tools) == 0 {
			return fmt.Errorf("tools: empty or no list: %v", err)
		}
		for _, t := range tools {
			c.Tools = append(c.Tools, t.Function.tool())
		}
	}
	if v := body["tool_choice"]; v != nil {
		var named struct {
			Type     string `json:"type"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if err := choice(c, v, &named, func() string { return named.Function.Name }); err != nil {
			return err
		}
	}
	return strict.OpenAI(body["messages"])
}

// toolJSON is a function with its schema.
type toolJSON struct {
	Name       string `json:"name"`
	Parameters struct {
		Required []string `json:"required"`
	} `json:"parameters"`
}

func (t toolJSON) tool() Tool { return Tool{Name: t.Name, Required: t.Parameters.Required} }

// choice reads tool_choice: a word, or an object that names a function.
func choice(c *Call, v jsontext.Value, named any, name func() string) error {
	if len(c.Tools) == 0 {
		return fmt.Errorf("tool_choice is only allowed when tools are specified")
	}
	if v.Kind() == '"' {
		return decode(v, &c.Choice)
	}
	if err := decode(v, named); err != nil {
		return fmt.Errorf("tool_choice: %w", err)
	}
	if n := name(); n != "" {
		c.Choice = n
	}
	return nil
}

func paragraph(before, text string) string {
	if before == "" {
		return text
	}
	return before + "\n\n" + text
}

// fail: https://platform.openai.com/docs/guides/error-codes, the form of its body.
func (chat) fail(w http.ResponseWriter, f Failure) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = w.Write(encode(openaiError(f)))
}

func openaiError(f Failure) any {
	return map[string]any{"error": map[string]any{"message": f.Message, "type": f.Code, "param": nil, "code": f.Code}}
}

func (chat) chunk(st *stream, choices []any) map[string]any {
	return map[string]any{"id": st.id("chatcmpl-"), "object": "chat.completion.chunk", "created": created, "model": st.call.Model, "choices": choices}
}

func (d chat) delta(st *stream, delta map[string]any, finish any) {
	st.event("", d.chunk(st, []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}))
}

func (d chat) begin(st *stream) { d.delta(st, map[string]any{"role": "assistant", "content": ""}, nil) }

func (d chat) piece(st *stream, p piece) {
	switch p.kind {
	case reasoningPiece:
		d.delta(st, map[string]any{"reasoning_content": p.text}, nil)
	case textPiece:
		d.delta(st, map[string]any{"content": p.text}, nil)
	case refusalPiece:
		d.delta(st, map[string]any{"refusal": p.text}, nil)
	case callPiece:
		call := map[string]any{"index": st.callIndex(p), "function": map[string]any{"arguments": p.text}}
		if p.first {
			call["id"], call["type"] = p.call.ID, "function"
			call["function"] = map[string]any{"name": p.call.Name, "arguments": p.text}
		}
		d.delta(st, map[string]any{"tool_calls": []any{call}}, nil)
	}
}

func (chat) failLate(st *stream, f Failure) { st.event("", openaiError(f)) }

func (chat) finish(a Answer) string {
	switch {
	case a.Length:
		return "length"
	case len(a.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (d chat) end(st *stream) {
	d.delta(st, map[string]any{}, d.finish(st.answer))
	if st.call.usage {
		last := d.chunk(st, []any{})
		last["usage"] = d.count(st)
		st.event("", last)
	}
	st.raw([]byte("data: [DONE]\n\n"))
}

func (chat) count(st *stream) any {
	u := st.call.count(st.answer)
	return map[string]any{"prompt_tokens": u.in, "completion_tokens": u.out, "total_tokens": u.in + u.out,
		"prompt_tokens_details": map[string]any{"cached_tokens": u.cached}, "completion_tokens_details": map[string]any{"reasoning_tokens": u.reasoning}}
}

func (d chat) whole(st *stream) any {
	a := st.answer
	m := map[string]any{"role": "assistant", "content": nil, "refusal": nil}
	if len(a.Text) > 0 || len(a.Calls) == 0 && len(a.Refusal) == 0 {
		m["content"] = strings.Join(a.Text, "")
	}
	if len(a.Refusal) > 0 {
		m["refusal"] = strings.Join(a.Refusal, "")
	}
	if len(a.Reasoning) > 0 {
		m["reasoning_content"] = strings.Join(a.Reasoning, "")
	}
	var calls []any
	for _, c := range a.Calls {
		calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return map[string]any{"id": st.id("chatcmpl-"), "object": "chat.completion", "created": created, "model": st.call.Model,
		"choices": []any{map[string]any{"index": 0, "message": m, "finish_reason": d.finish(a)}}, "usage": d.count(st)}
}
