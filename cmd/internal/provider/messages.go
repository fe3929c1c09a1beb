package provider

import (
	"net/http"
	"strings"

	"nexus/turns"
	"nexus/turns/render"
)

// messages is Anthropic's messages.
type messages struct {
	row       string
	maxOutput func(model string) uint64 // where a request has none: the API wants one
}

func (messages) path() string { return "/messages" }

func (messages) authorize(h http.Header, key string) {
	h.Set("anthropic-version", "2023-06-01")
	if key != "" {
		h.Set("x-api-key", key)
	}
}

// Tokens that a model may think for an effort.
var budgets = map[string]uint64{"low": 4096, "medium": 12_000, "high": 24_000, "xhigh": 32_000, "max": 48_000}

// minAnswer is what thinking leaves of the tokens of an answer.
const minAnswer = 1024

func (d messages) body(r *Request) ([]byte, error) {
	rendered, err := render.Anthropic(sections(r.System), nil, plainResults(withoutForeign(r.Messages, extAnthropic, d.row)))
	if err != nil {
		return nil, err
	}
	list := make([]turns.Raw, len(rendered.Messages))
	for i, m := range rendered.Messages {
		list[i] = turns.Raw(m)
	}
	if len(list) == 0 {
		list = []turns.Raw{turns.Raw(`{"role":"user","content":"(nothing was said)"}`)}
	}
	most := r.MaxOutput
	if most == 0 {
		most = d.maxOutput(r.Model)
	}
	m := members{"model": r.Model, "stream": true, "max_tokens": most}
	tools := allowedTools(r)
	choice := members{"type": "auto"}
	switch {
	case r.ToolChoice.Name != "":
		choice = members{"type": "tool", "name": r.ToolChoice.Name}
	case r.ToolChoice.Mode == "required":
		choice["type"] = "any"
	case r.ToolChoice.Mode == "none":
		choice["type"] = "none"
	}
	thinks := d.thinking(r, m, most, list, choice["type"] == "auto" || choice["type"] == "none")
	if len(tools) > 0 {
		var all []any
		for _, t := range tools {
			f := members{"name": t.Name, "input_schema": objectSchema(t.Parameters)}
			f.text("description", t.Description)
			all = append(all, f)
		}
		m["tools"] = all
		if r.Parallel != nil && !*r.Parallel && choice["type"] != "none" {
			choice["disable_parallel_tool_use"] = true
		}
		m["tool_choice"] = choice
	}
	if !thinks { // with thinking only the defaults are allowed
		m.opt("temperature", r.Temperature)
		m.opt("top_p", r.TopP)
	}
	if r.Format.Type == "json_schema" {
		m["output_config"] = members{"format": members{"type": "json_schema", "schema": schema(r.Format.Schema)}}
	}
	if r.User != "" {
		m["metadata"] = members{"user_id": r.User}
	}
	if r.ServiceTier == "auto" {
		m["service_tier"] = "auto"
	}
	if rendered.System != nil {
		if m["system"], err = cached(turns.Raw(rendered.System)); err != nil {
			return nil, err
		}
	}
	if list[len(list)-1], err = cachedMessage(list[len(list)-1]); err != nil {
		return nil, err
	}
	m["messages"] = list
	return turns.EncodeJSON(m)
}

// thinking turns thinking on where the request asks for an effort and the API allows it: not
// with a forced call, and not in a loop of tools that began without it.
func (d messages) thinking(r *Request, m members, most uint64, list []turns.Raw, free bool) bool {
	budget := budgets[r.Reasoning.Effort]
	if budget = min(budget, most/2); !free || budget < minAnswer || inPlainLoop(list) {
		return false
	}
	m["thinking"] = members{"type": "enabled", "budget_tokens": budget}
	return true
}

type wireMessage struct {
	Role    string    `json:"role"`
	Content turns.Raw `json:"content"`
}

type wireBlock struct {
	Type string `json:"type"`
}

// inPlainLoop reports whether the messages end with results of calls before which the model
// did not think.
func inPlainLoop(list []turns.Raw) bool {
	blocks := func(i int) (out []wireBlock) {
		var m wireMessage
		if i < 0 || lenient(list[i], &m) != nil || m.Content.Kind() != '[' {
			return nil
		}
		_ = lenient(m.Content, &out)
		return out
	}
	last, before := blocks(len(list)-1), blocks(len(list)-2)
	if len(last) == 0 || last[0].Type != "tool_result" {
		return false
	}
	return len(before) == 0 || before[0].Type != "thinking" && before[0].Type != "redacted_thinking"
}

// cached marks the end of a list of blocks as the end of what is to be cached.
func cached(blocks turns.Raw) (turns.Raw, error) {
	if s, ok := blocks.Text(); ok {
		return turns.EncodeJSON([]any{members{"type": "text", "text": s, "cache_control": ephemeral}})
	}
	var list []turns.Raw
	if err := lenient(blocks, &list); err != nil || len(list) == 0 {
		return blocks, err
	}
	var last map[string]turns.Raw
	if err := lenient(list[len(list)-1], &last); err != nil {
		return nil, err
	}
	if t := textOf(last["type"]); t == "thinking" || t == "redacted_thinking" {
		return blocks, nil
	}
	last["cache_control"] = encoded(ephemeral)
	list[len(list)-1] = encoded(last)
	return turns.EncodeJSON(list)
}

var ephemeral = members{"type": "ephemeral"}

func cachedMessage(raw turns.Raw) (turns.Raw, error) {
	var m wireMessage
	err := lenient(raw, &m)
	if err == nil {
		m.Content, err = cached(m.Content)
	}
	if err != nil {
		return nil, err
	}
	return turns.EncodeJSON(m)
}

// objectSchema is a schema that says that it is an object's, as the API wants.
func objectSchema(v turns.Raw) turns.Raw {
	var m map[string]turns.Raw
	if v = schema(v); lenient(v, &m) != nil || textOf(m["type"]) == "object" {
		return v
	}
	m["type"] = turns.RawText("object")
	return encoded(m)
}

func (d messages) read(b *building) reader {
	return &messagesReader{row: d.row, b: b, blocks: make(map[int]*block)}
}

type messagesReader struct {
	row    string
	b      *building
	blocks map[int]*block
	begun  bool
	reason string
	done   bool
	answer Answer
	usage  anthropicUsage
}

// block is a block of content while it comes. part is nil for what no dialect has.
type block struct {
	part      *part
	signature strings.Builder
	ended     bool
}

type anthropicUsage struct {
	In       *count `json:"input_tokens"`
	Out      *count `json:"output_tokens"`
	Read     *count `json:"cache_read_input_tokens"`
	Creation *count `json:"cache_creation_input_tokens"`
	Split    *struct {
		Hour count `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Server *struct {
		Searches count `json:"web_search_requests"`
	} `json:"server_tool_use"`
	Tier string `json:"service_tier"`
}

type messagesEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		ID    string         `json:"id"`
		Model string         `json:"model"`
		Usage anthropicUsage `json:"usage"`
	} `json:"message"`
	Block struct {
		Type      string    `json:"type"`
		Text      string    `json:"text"`
		Thinking  string    `json:"thinking"`
		Signature string    `json:"signature"`
		Data      string    `json:"data"`
		ID        string    `json:"id"`
		Name      string    `json:"name"`
		Input     turns.Raw `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Type      string `json:"type"`
		Text      string `json:"text"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		JSON      string `json:"partial_json"`
		Stop      string `json:"stop_reason"`
	} `json:"delta"`
	Usage anthropicUsage `json:"usage"`
	Error turns.Raw      `json:"error"`
}

func (r *messagesReader) event(e sseEvent) (bool, error) {
	var v messagesEvent
	if err := lenient(e.data, &v); err != nil {
		return false, broken("an event is not JSON of its kind")
	}
	switch v.Type {
	case "message_start":
		if r.begun {
			return false, broken("it begins twice")
		}
		r.begun = true
		r.answer.ID, r.answer.Model = clip(v.Message.ID), clip(v.Message.Model)
		r.count(&v.Message.Usage)
	case "content_block_start":
		return false, r.start(&v)
	case "content_block_delta":
		return false, r.delta(&v)
	case "content_block_stop":
		return false, r.stop(v.Index)
	case "message_delta":
		if v.Delta.Stop != "" {
			r.reason = v.Delta.Stop
		}
		r.count(&v.Usage)
	case "message_stop":
		r.done = true
		return true, nil
	case "error":
		message, code, _ := failureOf(e.data)
		return false, errorOf(0, message, code)
	}
	return false, nil // ping, and what is to come
}

// whole reads an answer that is no stream: a message with its blocks.
func (r *messagesReader) whole(data []byte) error {
	var m struct {
		Type    string         `json:"type"`
		ID      string         `json:"id"`
		Model   string         `json:"model"`
		Stop    string         `json:"stop_reason"`
		Usage   anthropicUsage `json:"usage"`
		Error   turns.Raw      `json:"error"`
		Content []turns.Raw    `json:"content"`
	}
	if err := lenient(data, &m); err != nil {
		return broken("the answer is not JSON of its kind")
	}
	if m.Type == "error" {
		message, code, _ := failureOf(data)
		return errorOf(0, message, code)
	}
	r.begun, r.done, r.reason = true, false, m.Stop
	r.answer.ID, r.answer.Model = clip(m.ID), clip(m.Model)
	r.count(&m.Usage)
	for i, raw := range m.Content {
		v := messagesEvent{Index: i}
		if err := lenient(raw, &v.Block); err != nil {
			return broken("block %d is not JSON of its kind", i)
		}
		if err := r.start(&v); err != nil {
			return err
		}
		if err := r.stop(i); err != nil {
			return err
		}
	}
	r.done = true
	return nil
}

// count takes what an event counts. Later events replace earlier ones.
func (r *messagesReader) count(u *anthropicUsage) {
	take := func(to **count, v *count) {
		if v != nil {
			*to = v
		}
	}
	take(&r.usage.In, u.In)
	take(&r.usage.Out, u.Out)
	take(&r.usage.Read, u.Read)
	take(&r.usage.Creation, u.Creation)
	if u.Split != nil {
		r.answer.Details.CacheHour = uint64(u.Split.Hour)
	}
	if u.Server != nil {
		r.answer.Details.WebSearches = uint64(u.Server.Searches)
	}
	if u.Tier != "" && u.Tier != "standard" {
		r.answer.Details.Tier = clip(u.Tier)
	}
}

func (r *messagesReader) start(v *messagesEvent) error {
	if !r.begun || r.done {
		return broken("a block outside of the message")
	}
	if r.blocks[v.Index] != nil {
		return broken("block %d begins twice", v.Index)
	}
	if len(r.blocks) >= maxParts {
		return broken("it has more than %d blocks", maxParts)
	}
	b := new(block)
	r.blocks[v.Index] = b
	c := &v.Block
	var err error
	switch c.Type {
	case "text":
		if b.part, err = r.b.begin(turns.Text, "", ""); err == nil {
			err = r.b.add(b.part, Delta, c.Text)
		}
	case "thinking":
		b.signature.WriteString(c.Signature)
		if b.part, err = r.b.begin(turns.Reasoning, "", ""); err == nil {
			err = r.b.add(b.part, Delta, c.Thinking)
		}
	case "redacted_thinking":
		if b.part, err = r.b.begin(turns.Reasoning, "", ""); err == nil {
			b.part.ext = extOf(extAnthropic, members{"data": c.Data, "from": r.row})
			err = r.b.grow(len(c.Data))
		}
	case "tool_use":
		if b.part, err = r.b.begin(turns.ToolCall, c.ID, c.Name); err == nil && c.Input.Kind() == '{' && string(c.Input) != "{}" {
			err = r.b.add(b.part, Delta, string(c.Input))
		}
	}
	return err
}

func (r *messagesReader) delta(v *messagesEvent) error {
	b := r.blocks[v.Index]
	if b == nil || b.ended {
		return broken("a delta of block %d, which is not open", v.Index)
	}
	if b.part == nil {
		return nil
	}
	d := &v.Delta
	want, text := turns.PartType(""), ""
	switch d.Type {
	case "text_delta":
		want, text = turns.Text, d.Text
	case "thinking_delta":
		want, text = turns.Reasoning, d.Thinking
	case "input_json_delta":
		want, text = turns.ToolCall, d.JSON
	case "signature_delta":
		if b.part.kind != turns.Reasoning {
			return broken("a signature of a block that is no thinking")
		}
		b.signature.WriteString(d.Signature)
		return r.b.grow(len(d.Signature))
	default:
		return nil
	}
	if b.part.kind != want {
		return broken("a %s in block %d, which is another", d.Type, v.Index)
	}
	return r.b.add(b.part, Delta, text)
}

func (r *messagesReader) stop(index int) error {
	b := r.blocks[index]
	if b == nil {
		return broken("block %d ends before it begins", index)
	}
	if b.ended = true; b.part == nil {
		return nil
	}
	r.sign(b)
	return r.b.end(b.part)
}

func (r *messagesReader) sign(b *block) {
	if s := b.signature.String(); s != "" && b.part.ext == nil {
		b.part.ext = extOf(extAnthropic, members{"signature": s, "from": r.row})
	}
}

func (r *messagesReader) end() (*Answer, error) {
	if !r.done && r.reason == "" {
		return nil, errLost
	}
	for _, b := range r.blocks {
		if b.part != nil && !b.ended {
			return nil, errLost
		}
	}
	reason := "stop"
	switch r.reason {
	case "max_tokens", "model_context_window_exceeded":
		reason = "length"
	case "refusal":
		reason = "content_filter"
	case "tool_use":
		reason = "tool_call"
	}
	n := func(c *count) uint64 {
		if c == nil {
			return 0
		}
		return uint64(*c)
	}
	if u := &r.usage; u.In != nil || u.Out != nil {
		r.answer.Usage = &turns.Usage{InputTokens: n(u.In) + n(u.Read) + n(u.Creation), OutputTokens: n(u.Out), CacheRead: n(u.Read), CacheCreation: n(u.Creation)}
	}
	var err error
	r.answer.Message, err = r.b.finish(reason)
	return &r.answer, err
}
