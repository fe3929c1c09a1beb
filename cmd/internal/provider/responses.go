package provider

import (
	"encoding/base64"
	"net/http"
	"strings"

	"nexus/turns"
)

// responses is OpenAI's responses, without its storage: the ledger has the history.
type responses struct{ row string }

func (responses) path() string { return "/responses" }

func (responses) authorize(h http.Header, key string) { chat{}.authorize(h, key) }

func (d responses) body(r *Request) ([]byte, error) {
	m := members{"model": r.Model, "input": d.input(r.Messages), "stream": true, "store": false}
	m.text("instructions", strings.Join(r.System, "\n\n"))
	var tools []any
	for _, t := range r.Tools {
		if t.Raw != nil {
			tools = append(tools, t.Raw)
			continue
		}
		f := members{"type": "function", "name": t.Name, "parameters": schema(t.Parameters)}
		f.text("description", t.Description)
		f.opt("strict", t.Strict)
		tools = append(tools, f)
	}
	if len(tools) > 0 {
		m["tools"] = tools
		switch c := r.ToolChoice; {
		case c.Name != "":
			m["tool_choice"] = members{"type": "function", "name": c.Name}
		case c.Allowed != nil:
			var names []any
			for _, n := range c.Allowed {
				names = append(names, members{"type": "function", "name": n})
			}
			mode := c.Mode
			if mode == "" {
				mode = "auto"
			}
			m["tool_choice"] = members{"type": "allowed_tools", "mode": mode, "tools": names}
		default:
			m.text("tool_choice", c.Mode)
		}
		m.opt("parallel_tool_calls", r.Parallel)
	}
	text := members{}
	text.text("verbosity", r.Verbosity)
	switch f := r.Format; f.Type {
	case "json_object":
		text["format"] = members{"type": f.Type}
	case "json_schema":
		s := members{"type": f.Type, "name": f.Name, "schema": schema(f.Schema)}
		s.text("description", f.Description)
		s.opt("strict", f.Strict)
		text["format"] = s
	}
	if len(text) > 0 {
		m["text"] = text
	}
	// A model that reasons needs its reasoning back, and nothing is stored there. A model
	// that does not may refuse the word, so it is only used where reasoning is asked for.
	if r.Reasoning != (Reasoning{}) {
		m["include"] = []string{"reasoning.encrypted_content"}
		reason := members{}
		reason.text("effort", r.Reasoning.Effort)
		reason.text("summary", r.Reasoning.Summary)
		if len(reason) > 0 {
			m["reasoning"] = reason
		}
	}
	if r.MaxOutput > 0 {
		m["max_output_tokens"] = r.MaxOutput
	}
	m.text("prompt_cache_key", r.CacheKey)
	m.text("safety_identifier", r.User)
	m.text("service_tier", r.ServiceTier)
	m.opt("temperature", r.Temperature)
	m.opt("top_p", r.TopP)
	m.opt("presence_penalty", r.Presence)
	m.opt("frequency_penalty", r.Frequency)
	return turns.EncodeJSON(m)
}

const maxCallID = 64 // of OpenAI

// input renders messages as items.
func (d responses) input(ms []turns.Message) []any {
	items := []any{}
	custom := make(map[string]bool)
	for i := range ms {
		role, kind := "user", "input_text"
		switch ms[i].Role {
		case turns.System:
			role = "system"
		case turns.Assistant:
			role, kind = "assistant", "output_text"
		}
		var parts []any
		flush := func() {
			if len(parts) > 0 {
				items = append(items, members{"type": "message", "role": role, "content": parts})
				parts = nil
			}
		}
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			switch {
			case p.Type == turns.Reasoning:
				if it := d.reasoningItem(p); it != nil {
					flush()
					items = append(items, it)
				}
			case p.Type == turns.ToolCall:
				flush()
				items = append(items, callItem(p, custom))
			case p.Type == turns.ToolCallResponse:
				flush()
				kind := "function_call_output"
				if custom[p.ID] {
					kind = "custom_tool_call_output"
				}
				items = append(items, members{"type": kind, "call_id": fitID(p.ID, maxCallID), "output": resultOf(p)})
			case role == "assistant": // each with its phase
				var ext struct {
					Phase string `json:"phase"`
				}
				ofProvider(p, extOpenAI, &ext)
				m := members{"type": "message", "role": role, "content": []any{contentOf(p, kind)}}
				m.text("phase", ext.Phase)
				items = append(items, m)
			default:
				parts = append(parts, contentOf(p, kind))
			}
		}
		flush()
	}
	return items
}

// reasoningItem is the item of a reasoning part that this provider can read; nil: there is none.
func (d responses) reasoningItem(p *turns.Part) any {
	var ext struct {
		Item map[string]turns.Raw `json:"item"`
	}
	if foreign(p, extOpenAI, d.row) || !ofProvider(p, extOpenAI, &ext) || ext.Item == nil {
		return nil
	}
	if textOf(ext.Item["type"]) == "reasoning" {
		if textOf(ext.Item["encrypted_content"]) == "" {
			return nil
		}
		if ext.Item["summary"].Kind() != '[' {
			ext.Item["summary"] = turns.Raw("[]")
		}
		delete(ext.Item, "content")
	}
	delete(ext.Item, "id") // of an item that is not stored there
	delete(ext.Item, "status")
	return ext.Item
}

func callItem(p *turns.Part, custom map[string]bool) any {
	var ext struct {
		Type string `json:"type"`
	}
	ofProvider(p, extOpenAI, &ext)
	text, isText := p.Arguments.Text()
	custom[p.ID] = ext.Type == "custom" && isText
	m := members{"type": "function_call", "call_id": fitID(p.ID, maxCallID), "name": fitName(p.Name, 128)}
	switch {
	case custom[p.ID]:
		m["type"], m["input"] = "custom_tool_call", text
	case p.Ref != nil:
		n := p.Notice()
		m["arguments"] = string(n.Arguments)
	default:
		m["arguments"] = string(p.Arguments)
	}
	return m
}

// contentOf is a part as content of a message or a result.
func contentOf(p *turns.Part, kind string) any {
	var hints struct {
		Detail   string `json:"detail"`
		Filename string `json:"filename"`
	}
	ofProvider(p, extOpenAI, &hints)
	image := p.Modality == "image" || strings.HasPrefix(p.MimeType, "image/")
	url := p.Content
	if p.Type == turns.Blob {
		url = "data:" + p.MimeType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
	}
	var m members
	switch {
	case p.Ref != nil:
		n := p.Notice()
		return members{"type": kind, "text": n.Content}
	case p.Type == turns.Text:
		return members{"type": kind, "text": p.Content}
	case image && p.Type == turns.File:
		m = members{"type": "input_image", "file_id": url}
	case image:
		m = members{"type": "input_image", "image_url": url}
	case p.Type == turns.File:
		return members{"type": "input_file", "file_id": url}
	case p.Type == turns.Blob, strings.HasPrefix(url, "data:"):
		m = members{"type": "input_file", "file_data": url, "filename": "file"}
		m.text("filename", hints.Filename)
		return m
	default:
		return members{"type": "input_file", "file_url": url}
	}
	m["detail"] = "auto"
	m.text("detail", hints.Detail)
	return m
}

// resultOf is the output of a call: a text, or a list of content.
func resultOf(p *turns.Part) any {
	if p.Ref != nil {
		n := p.Notice()
		return textOf(n.Response)
	}
	if s, ok := p.Response.Text(); ok {
		return s
	}
	if inputList(p) != nil {
		return p.Response
	}
	var parts []turns.Part
	if p.Response.Kind() == '[' && turns.DecodeJSON(p.Response, &parts) == nil && len(parts) > 0 {
		out := []any{}
		for i := range parts {
			out = append(out, contentOf(&parts[i], "input_text"))
		}
		return out
	}
	return string(p.Response)
}

func (d responses) read(b *building) reader {
	return &responsesReader{row: d.row, b: b, items: make(map[int]*readItem)}
}

type responsesReader struct {
	row    string
	b      *building
	items  map[int]*readItem
	reason string
	done   bool
	answer Answer
}

// readItem is an item of the output while it comes.
type readItem struct {
	kind  string
	parts map[int]*part // of a message by content index; else only 0
	ended bool
}

type responsesEvent struct {
	Type     string    `json:"type"`
	Output   int       `json:"output_index"`
	Content  int       `json:"content_index"`
	Summary  int       `json:"summary_index"`
	Delta    turns.Raw `json:"delta"`
	Item     turns.Raw `json:"item"`
	Response turns.Raw `json:"response"`
}

type outputItem struct {
	Type      string    `json:"type"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments turns.Raw `json:"arguments"`
	Input     turns.Raw `json:"input"`
	Phase     string    `json:"phase"`
	Encrypted string    `json:"encrypted_content"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

func (r *responsesReader) event(e sseEvent) (bool, error) {
	if string(e.data) == "[DONE]" {
		return true, nil
	}
	var v responsesEvent
	if err := lenient(e.data, &v); err != nil {
		return false, broken("an event is not JSON")
	}
	delta := textOf(v.Delta)
	switch v.Type {
	case "response.output_item.added":
		return false, r.added(v.Output, v.Item)
	case "response.output_text.delta":
		return false, r.delta(&v, "message", turns.Text, Delta, delta)
	case "response.refusal.delta":
		return false, r.delta(&v, "message", turns.Text, RefusalDelta, delta)
	case "response.reasoning.delta", "response.reasoning_text.delta":
		v.Content = 0
		return false, r.delta(&v, "reasoning", turns.Reasoning, Delta, delta)
	case "response.reasoning_summary_text.delta":
		p, err := r.part(v.Output, 0, "reasoning", turns.Reasoning)
		if err == nil {
			err = r.b.addSummary(p, v.Summary, delta)
		}
		return false, err
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		it := r.items[v.Output]
		if it == nil || it.parts[0] == nil || it.parts[0].kind != turns.ToolCall {
			return false, broken("arguments of a call that did not begin")
		}
		return false, r.b.add(it.parts[0], Delta, delta)
	case "response.output_item.done":
		return false, r.itemDone(v.Output, v.Item)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return true, r.last(strings.TrimPrefix(v.Type, "response."), v.Response)
	case "error":
		message, code, param := failureOf(e.data)
		if code == "" { // OpenAI's own are flat
			var flat failureDetail
			_ = lenient(e.data, &flat)
			code, param = textOf(flat.Code), textOf(flat.Param)
		}
		x := errorOf(0, message, code)
		x.Param = param
		return false, x
	}
	return false, nil
}

// whole reads an answer that is no stream: a response.
func (r *responsesReader) whole(data []byte) error {
	var v struct {
		Status string `json:"status"`
	}
	if lenient(data, &v) != nil || v.Status == "" {
		return broken("the answer is no response")
	}
	return r.last(v.Status, data)
}

func (r *responsesReader) added(index int, raw turns.Raw) error {
	var it outputItem
	if lenient(raw, &it) != nil || it.Type == "" {
		return broken("an item without a type")
	}
	if r.items[index] != nil {
		return broken("item %d begins twice", index)
	}
	if len(r.items) >= maxParts {
		return broken("it has more than %d items", maxParts)
	}
	n := &readItem{kind: it.Type, parts: make(map[int]*part)}
	r.items[index] = n
	switch it.Type {
	case "function_call", "custom_tool_call":
		p, err := r.b.begin(turns.ToolCall, it.CallID, it.Name)
		if err != nil {
			return err
		}
		if it.Type == "custom_tool_call" {
			p.ext = extOf(extOpenAI, members{"type": "custom"})
		}
		n.parts[0] = p
	case "reasoning":
		p, err := r.b.begin(turns.Reasoning, "", "")
		if err != nil {
			return err
		}
		n.parts[0] = p
	}
	return nil
}

// part is the part of an item that a delta belongs to.
func (r *responsesReader) part(output, content int, kind string, of turns.PartType) (*part, error) {
	it := r.items[output]
	if it == nil || it.kind != kind {
		return nil, broken("a delta of item %d, which is no %s", output, kind)
	}
	p := it.parts[content]
	if p == nil {
		var err error
		if p, err = r.b.begin(of, "", ""); err != nil {
			return nil, err
		}
		it.parts[content] = p
	}
	return p, nil
}

func (r *responsesReader) delta(v *responsesEvent, kind string, of turns.PartType, event Kind, text string) error {
	p, err := r.part(v.Output, v.Content, kind, of)
	if err != nil {
		return err
	}
	return r.b.add(p, event, text)
}

// itemDone ends an item. What did not come as a delta stands in it.
func (r *responsesReader) itemDone(index int, raw turns.Raw) error {
	var it outputItem
	if lenient(raw, &it) != nil || it.Type == "" {
		return broken("an item without a type")
	}
	n := r.items[index]
	if n == nil {
		if err := r.added(index, raw); err != nil {
			return err
		}
		n = r.items[index]
	}
	if n.kind != it.Type {
		return broken("item %d begins as %.40q and ends as %.40q", index, n.kind, it.Type)
	}
	if n.ended {
		return nil
	}
	n.ended = true
	switch it.Type {
	case "message":
		return r.messageDone(index, n, &it)
	case "function_call", "custom_tool_call":
		p, args := n.parts[0], textOf(it.Arguments)
		if it.Type == "custom_tool_call" {
			args = textOf(it.Input)
		}
		if p.text.Len() == 0 {
			if err := r.b.add(p, Delta, args); err != nil {
				return err
			}
		}
		if err := r.b.end(p); err != nil {
			return err
		}
		if it.Type == "custom_tool_call" {
			p.final.Arguments = turns.RawText(p.text.String())
		}
		return nil
	case "reasoning":
		return r.reasoningDone(n.parts[0], &it, raw)
	}
	// A tool that the provider ran, or what is not known: kept for the provider, as the
	// transcripts of its own agent are.
	p, err := r.b.begin(turns.Reasoning, "", "")
	if err != nil {
		return err
	}
	if err := r.b.grow(len(raw)); err != nil {
		return err
	}
	p.ext = r.itemExt(raw, &it)
	if err := r.b.add(p, Delta, "["+clip(it.Type)+"]"); err != nil {
		return err
	}
	return r.b.end(p)
}

func (r *responsesReader) messageDone(index int, n *readItem, it *outputItem) error {
	for i, c := range it.Content {
		p, err := r.part(index, i, "message", turns.Text)
		if err != nil {
			return err
		}
		kind, text := Delta, c.Text
		if c.Type == "refusal" {
			kind, text = RefusalDelta, c.Refusal
		}
		if p.text.Len() == 0 {
			if err := r.b.add(p, kind, text); err != nil {
				return err
			}
		}
	}
	for i := range len(n.parts) {
		p := n.parts[i]
		if p == nil {
			return broken("the content of item %d has a gap", index)
		}
		if it.Phase != "" {
			p.ext = extOf(extOpenAI, members{"phase": clip(it.Phase)})
		}
		if err := r.b.end(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *responsesReader) reasoningDone(p *part, it *outputItem, raw turns.Raw) error {
	for i, s := range it.Summary {
		if i >= len(p.summary) {
			if err := r.b.addSummary(p, i, s.Text); err != nil {
				return err
			}
		}
	}
	if p.text.Len() == 0 {
		for _, c := range it.Content {
			if err := r.b.add(p, Delta, c.Text); err != nil {
				return err
			}
		}
	}
	if err := r.b.grow(len(raw)); err != nil {
		return err
	}
	p.ext = r.itemExt(raw, it)
	return r.b.end(p)
}

// itemExt keeps an item as it came, byte for byte.
func (r *responsesReader) itemExt(raw turns.Raw, it *outputItem) turns.Raw {
	var exact turns.Raw
	if turns.DecodeJSON(raw, &exact) != nil { // the ledger takes no JSON that is not strict
		exact = encoded(members{"type": it.Type, "summary": []any{}, "encrypted_content": strings.ToValidUTF8(it.Encrypted, "")})
	}
	return extOf(extOpenAI, members{"item": exact, "from": r.row})
}

// last reads the response object of the last event.
func (r *responsesReader) last(status string, raw turns.Raw) error {
	var v struct {
		ID         string      `json:"id"`
		Model      string      `json:"model"`
		Tier       string      `json:"service_tier"`
		Error      turns.Raw   `json:"error"`
		Output     []turns.Raw `json:"output"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Usage *struct {
			In        count `json:"input_tokens"`
			Out       count `json:"output_tokens"`
			InDetails struct {
				Cached count `json:"cached_tokens"`
			} `json:"input_tokens_details"`
			OutDetails struct {
				Reasoning count `json:"reasoning_tokens"`
			} `json:"output_tokens_details"`
		} `json:"usage"`
	}
	if lenient(raw, &v) != nil {
		return broken("the last event has no response")
	}
	if status == "failed" || status == "cancelled" {
		var d failureDetail
		_ = lenient(v.Error, &d)
		return errorOf(0, textOf(d.Message), textOf(d.Code))
	}
	for i, it := range v.Output { // items that did not come by themselves
		if n := r.items[i]; n == nil || !n.ended {
			if err := r.itemDone(i, it); err != nil {
				return err
			}
		}
	}
	r.done, r.reason = true, "stop"
	if status == "incomplete" {
		if r.reason = "length"; v.Incomplete.Reason == "content_filter" {
			r.reason = "content_filter"
		}
	}
	r.answer.ID, r.answer.Model = clip(v.ID), clip(v.Model)
	if v.Tier != "default" && v.Tier != "auto" {
		r.answer.Details.Tier = clip(v.Tier)
	}
	if u := v.Usage; u != nil {
		cached := uint64(u.InDetails.Cached)
		r.answer.Usage = &turns.Usage{InputTokens: max(uint64(u.In), cached), OutputTokens: uint64(u.Out), CacheRead: cached}
		r.answer.Details.Reasoning = uint64(u.OutDetails.Reasoning)
	}
	return nil
}

func (r *responsesReader) end() (*Answer, error) {
	if !r.done {
		return nil, errLost
	}
	var err error
	r.answer.Message, err = r.b.finish(r.reason)
	return &r.answer, err
}
