package providertest

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// responses is OpenAI's responses: the open specification of 2026-04-24, as a provider
// without storage serves it.
type responses struct{}

func (responses) kind() string { return Responses }

// item is an item of the input, of any type.
type item struct {
	Type      string         `json:"type"`
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	CallID    string         `json:"call_id"`
	Output    jsontext.Value `json:"output"`
	Encrypted string         `json:"encrypted_content"`
	Name      string         `json:"name"`
	Arguments string         `json:"arguments"`
	Summary   jsontext.Value `json:"summary"`
}

func (responses) read(c *Call, body map[string]jsontext.Value) error {
	if v := body["instructions"]; v != nil && v.Kind() == '"' {
		if err := decode(v, &c.System); err != nil {
			return err
		}
	}
	var items []item
	if v := body["input"]; v.Kind() == '"' {
		items = []item{{Type: "message", Role: "user", Content: v}}
	} else if err := decode(v, &items); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if v := body["tools"]; v != nil {
		var tools []toolJSON
		if err := decode(v, &tools); err != nil {
			return fmt.Errorf("tools: %w", err)
		}
		for _, t := range tools {
			c.Tools = append(c.Tools, t.tool())
		}
	}
	if v := body["tool_choice"]; v != nil && (v.Kind() != '"' || len(c.Tools) > 0) {
		var named struct {
			Name string `json:"name"`
			Mode string `json:"mode"`
		}
		if err := choice(c, v, &named, func() string {
			if named.Name != "" {
				return named.Name
			}
			return named.Mode
		}); err != nil {
			return err
		}
	}
	open := make(map[string]bool)
	for i, it := range items {
		if err := c.item(it, open); err != nil {
			return fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	for id := range open { // "No tool output found for function call call_…"
		return fmt.Errorf("no tool output found for function call %s", id)
	}
	return nil
}

// item reads one item of the input. open are the calls without an output so far.
func (c *Call) item(it item, open map[string]bool) error {
	c.Turns++
	switch {
	case it.Type == "message" || it.Type == "" && it.Role != "":
		text, images, err := chatContent(it.Content)
		if err != nil {
			return err
		}
		switch it.Role {
		case "system", "developer":
			c.System = paragraph(c.System, text)
			c.Turns--
		case "user":
			c.Prompt, c.Images, c.Results = text, images, nil
		case "assistant":
			c.Results = nil
		default:
			return fmt.Errorf("role %q", it.Role)
		}
	case it.Type == "function_call":
		if it.CallID == "" || it.Name == "" || !jsontext.Value(it.Arguments).IsValid() || open[it.CallID] {
			return fmt.Errorf("function call %q of %q", it.CallID, it.Name)
		}
		open[it.CallID] = true
		c.Results = nil
	case it.Type == "function_call_output":
		if !open[it.CallID] {
			return fmt.Errorf("no tool call found for function call output with call_id %s", it.CallID)
		}
		delete(open, it.CallID)
		text, _, err := chatContent(it.Output)
		if err != nil {
			return err
		}
		c.Results = append(c.Results, text)
	case it.Type == "reasoning":
		if it.Summary == nil {
			return fmt.Errorf("reasoning without summary")
		}
		if it.Encrypted != "" && !strings.HasPrefix(it.Encrypted, "signature-of-") { // "could not be verified"
			return fmt.Errorf("the encrypted content %.20q could not be verified", it.Encrypted)
		}
	default:
		return fmt.Errorf("invalid value: %q", it.Type)
	}
	return nil
}

func (responses) fail(w http.ResponseWriter, f Failure) { chat{}.fail(w, f) }

// resource is the response object.
func (d responses) resource(st *stream, status string, output []any) map[string]any {
	r := map[string]any{"id": st.id("resp_"), "object": "response", "created_at": created, "completed_at": nil, "status": status, "model": st.call.Model,
		"output": output, "error": nil, "incomplete_details": nil, "usage": nil, "instructions": nil, "previous_response_id": nil, "tools": []any{}, "tool_choice": "auto",
		"truncation": "disabled", "parallel_tool_calls": true, "text": map[string]any{"format": map[string]any{"type": "text"}}, "top_p": 1, "temperature": 1,
		"presence_penalty": 0, "frequency_penalty": 0, "top_logprobs": 0, "reasoning": map[string]any{"effort": nil, "summary": nil}, "max_output_tokens": nil,
		"max_tool_calls": nil, "store": false, "background": false, "service_tier": "default", "metadata": map[string]any{}, "safety_identifier": nil, "prompt_cache_key": nil}
	switch status {
	case "in_progress", "failed":
		return r
	case "incomplete":
		r["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
	default:
		r["completed_at"] = created + 1
	}
	u := st.call.count(st.answer)
	r["usage"] = map[string]any{"input_tokens": u.in, "output_tokens": u.out, "total_tokens": u.in + u.out,
		"input_tokens_details": map[string]any{"cached_tokens": u.cached}, "output_tokens_details": map[string]any{"reasoning_tokens": u.reasoning}}
	return r
}

// itemID is the id of the item of a part.
func (responses) itemID(st *stream, p piece) string {
	prefix := "msg_"
	switch p.kind {
	case reasoningPiece:
		prefix = "rs_"
	case callPiece:
		prefix = "fc_"
	}
	return fmt.Sprintf("%s_%d", st.id(prefix), p.index)
}

// output returns the item of a part, which has text.
func (d responses) output(st *stream, p piece, text string) map[string]any {
	id := d.itemID(st, p)
	switch p.kind {
	case reasoningPiece:
		return map[string]any{"id": id, "type": "reasoning", "status": "completed",
			"summary": []any{map[string]any{"type": "summary_text", "text": text}}, "content": []any{}, "encrypted_content": Signature(text)}
	case callPiece:
		return map[string]any{"id": id, "type": "function_call", "status": "completed", "call_id": p.call.ID, "name": p.call.Name, "arguments": text}
	}
	status := "completed"
	if st.answer.Length {
		status = "incomplete"
	}
	return map[string]any{"id": id, "type": "message", "role": "assistant", "status": status, "content": []any{d.content(p, text)}}
}

func (responses) content(p piece, text string) map[string]any {
	if p.kind == refusalPiece {
		return map[string]any{"type": "refusal", "refusal": text}
	}
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

func (d responses) send(st *stream, kind string, members map[string]any) {
	members["type"], members["sequence_number"] = kind, st.sequence
	st.sequence++
	st.event(kind, members)
}

func (d responses) begin(st *stream) {
	for _, kind := range []string{"response.created", "response.in_progress"} {
		d.send(st, kind, map[string]any{"response": d.resource(st, "in_progress", []any{})})
	}
}

func (d responses) piece(st *stream, p piece) {
	id := d.itemID(st, p)
	at := func(more map[string]any) map[string]any {
		m := map[string]any{"output_index": p.index, "item_id": id}
		maps.Copy(m, more)
		return m
	}
	if p.first {
		begun := d.output(st, p, "")
		begun["status"] = "in_progress"
		switch p.kind {
		case reasoningPiece:
			begun["summary"], begun["encrypted_content"] = []any{}, nil
		case callPiece:
			begun["arguments"] = ""
		default:
			begun["content"] = []any{}
		}
		d.send(st, "response.output_item.added", map[string]any{"output_index": p.index, "item": begun})
		switch p.kind {
		case reasoningPiece:
			d.send(st, "response.reasoning_summary_part.added", at(map[string]any{"summary_index": 0, "part": map[string]any{"type": "summary_text", "text": ""}}))
		case textPiece, refusalPiece:
			d.send(st, "response.content_part.added", at(map[string]any{"content_index": 0, "part": d.content(p, "")}))
		}
	}
	var text string
	if p.last {
		text = st.part(p.index)
	}
	switch p.kind {
	case reasoningPiece:
		d.send(st, "response.reasoning_summary_text.delta", at(map[string]any{"summary_index": 0, "delta": p.text}))
		if p.last {
			d.send(st, "response.reasoning_summary_text.done", at(map[string]any{"summary_index": 0, "text": text}))
			d.send(st, "response.reasoning_summary_part.done", at(map[string]any{"summary_index": 0, "part": map[string]any{"type": "summary_text", "text": text}}))
		}
	case callPiece:
		d.send(st, "response.function_call_arguments.delta", at(map[string]any{"delta": p.text}))
		if p.last {
			d.send(st, "response.function_call_arguments.done", at(map[string]any{"arguments": text, "name": p.call.Name}))
		}
	case textPiece:
		d.send(st, "response.output_text.delta", at(map[string]any{"content_index": 0, "delta": p.text, "logprobs": []any{}}))
		if p.last {
			d.send(st, "response.output_text.done", at(map[string]any{"content_index": 0, "text": text, "logprobs": []any{}}))
		}
	case refusalPiece:
		d.send(st, "response.refusal.delta", at(map[string]any{"content_index": 0, "delta": p.text}))
		if p.last {
			d.send(st, "response.refusal.done", at(map[string]any{"content_index": 0, "refusal": text}))
		}
	}
	if !p.last {
		return
	}
	if p.kind == textPiece || p.kind == refusalPiece {
		d.send(st, "response.content_part.done", at(map[string]any{"content_index": 0, "part": d.content(p, text)}))
	}
	d.send(st, "response.output_item.done", map[string]any{"output_index": p.index, "item": d.output(st, p, text)})
}

func (d responses) failLate(st *stream, f Failure) {
	d.send(st, "error", map[string]any{"code": f.Code, "message": f.Message, "param": nil})
	r := d.resource(st, "failed", []any{})
	r["error"] = map[string]any{"code": f.Code, "message": f.Message}
	d.send(st, "response.failed", map[string]any{"response": r})
}

func (d responses) end(st *stream) {
	r := d.whole(st).(map[string]any)
	d.send(st, "response."+r["status"].(string), map[string]any{"response": r})
}

func (d responses) whole(st *stream) any {
	output := []any{}
	for _, p := range st.pieces {
		if p.last {
			output = append(output, d.output(st, p, st.part(p.index)))
		}
	}
	if st.answer.Length {
		return d.resource(st, "incomplete", output)
	}
	return d.resource(st, "completed", output)
}
