package provider

import (
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"

	"nexus/turns"
	"nexus/turns/render"
)

// chat is OpenAI's chat completions, which most servers speak.
type chat struct {
	row   string
	newer *atomic.Bool // the bound of an answer goes by its newer name
}

func (chat) path() string { return "/chat/completions" }

func (chat) authorize(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

// Members of a part's ext: what is opaque, and who made it.
const (
	extOpenAI    = "openai"
	extChat      = "openai-chat"
	extAnthropic = "anthropic"
)

func (d chat) body(r *Request) ([]byte, error) {
	rendered, err := render.OpenAI(sections(r.System), nil, plainResults(r.Messages))
	if err != nil {
		return nil, err
	}
	messages := make([]turns.Raw, len(rendered.Messages))
	for i, m := range rendered.Messages {
		messages[i] = turns.Raw(m)
	}
	if err := d.thoughts(messages, r.Messages); err != nil {
		return nil, err
	}
	m := members{"model": r.Model, "messages": messages, "stream": true, "stream_options": members{"include_usage": true}}
	var tools []any
	for _, t := range allowedTools(r) {
		f := members{"name": t.Name, "parameters": schema(t.Parameters)}
		f.text("description", t.Description)
		f.opt("strict", t.Strict)
		tools = append(tools, members{"type": "function", "function": f})
	}
	if len(tools) > 0 {
		m["tools"] = tools
		if c := r.ToolChoice; c.Name != "" {
			m["tool_choice"] = members{"type": "function", "function": members{"name": c.Name}}
		} else {
			m.text("tool_choice", c.Mode)
		}
		m.opt("parallel_tool_calls", r.Parallel)
	}
	switch f := r.Format; f.Type {
	case "json_object":
		m["response_format"] = members{"type": f.Type}
	case "json_schema":
		s := members{"name": f.Name, "schema": schema(f.Schema)}
		s.text("description", f.Description)
		s.opt("strict", f.Strict)
		m["response_format"] = members{"type": f.Type, "json_schema": s}
	}
	if r.MaxOutput > 0 {
		m[d.limitName()] = r.MaxOutput
	}
	m.text("reasoning_effort", r.Reasoning.Effort)
	m.text("verbosity", r.Verbosity)
	m.text("prompt_cache_key", r.CacheKey)
	m.text("user", r.User)
	m.text("service_tier", r.ServiceTier)
	m.opt("temperature", r.Temperature)
	m.opt("top_p", r.TopP)
	m.opt("presence_penalty", r.Presence)
	m.opt("frequency_penalty", r.Frequency)
	return turns.EncodeJSON(m)
}

// limitName is the name under which the server takes the bound of an answer. OpenAI's models
// refuse the old one since o1, and many servers know only that.
func (d chat) limitName() string {
	if d.newer.Load() {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// relent takes the other name where the server refuses the one that it was given. From then on
// all requests have that.
func (d chat) relent(r *Request, e *Error) bool {
	if r.MaxOutput == 0 || e.Status/100 != 4 || !strings.Contains(e.Message+" "+e.Param, d.limitName()) || !notKnown.MatchString(e.Message+" "+e.Code) {
		return false
	}
	newer := d.newer.Load()
	return d.newer.CompareAndSwap(newer, !newer)
}

// notKnown matches how servers refuse a parameter.
var notKnown = regexp.MustCompile(`(?i)unsupported|not supported|unrecognized|unknown|unexpected|not permitted|not allowed|extra fields|extra inputs`)

// whole reads an answer that is no stream: its message has what the chunks of a stream would have.
func (r *chatReader) whole(data []byte) error {
	var c chatChunk
	if lenient(data, &c) == nil && len(c.Choices) == 0 && c.Error.Kind() == 0 {
		return broken("the answer has no choices")
	}
	if _, err := r.event(sseEvent{data: data}); err != nil {
		return err
	}
	r.done = true
	return nil
}

// thoughts gives the reasoning of the calls that the model is just making back to the
// server that sent it: some refuse the results of such a call without it, and others take
// it nowhere else.
func (d chat) thoughts(rendered []turns.Raw, ms []turns.Message) error {
	byCall := make(map[string]string)
	for i := len(ms) - 1; i >= 0 && ms[i].Role != turns.User; i-- {
		var text []string
		for j := range ms[i].Parts {
			switch p := &ms[i].Parts[j]; {
			case p.Type == turns.Reasoning && p.Content != "" && madeBy(p, extChat, d.row):
				text = append(text, p.Content)
			case p.Type == turns.ToolCall && len(text) > 0:
				byCall[p.ID] = strings.Join(text, "\n")
			}
		}
	}
	for i, raw := range rendered {
		var m struct {
			Calls []struct {
				ID string `json:"id"`
			} `json:"tool_calls"`
		}
		if len(byCall) == 0 || lenient(raw, &m) != nil || len(m.Calls) == 0 || byCall[m.Calls[0].ID] == "" {
			continue
		}
		var all map[string]turns.Raw
		if err := lenient(raw, &all); err != nil {
			return err
		}
		all["reasoning_content"] = turns.RawText(byCall[m.Calls[0].ID])
		b, err := turns.EncodeJSON(all)
		if err != nil {
			return err
		}
		rendered[i] = b
	}
	return nil
}

func (d chat) read(b *building) reader {
	return &chatReader{row: d.row, b: b, calls: make(map[int]*part), given: make(map[int]string)}
}

type chatReader struct {
	row    string
	b      *building
	open   *part          // the text, refusal or reasoning that comes
	refuse bool           // open is a refusal
	calls  map[int]*part  // by index: the newest there
	given  map[int]string // their ids as the server has them
	last   int            // index of the last call
	finish string
	done   bool
	answer Answer
}

type chatChunk struct {
	ID      string    `json:"id"`
	Model   string    `json:"model"`
	Tier    string    `json:"service_tier"`
	Error   turns.Raw `json:"error"`
	Choices []struct {
		Index   int       `json:"index"`
		Delta   chatDelta `json:"delta"`
		Message chatDelta `json:"message"` // of an answer that is no stream
		Finish  turns.Raw `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		In      count `json:"prompt_tokens"`
		Out     count `json:"completion_tokens"`
		Details struct {
			Cached count `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		OutDetails struct {
			Reasoning count `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
}

type chatDelta struct {
	Content   turns.Raw `json:"content"`
	Refusal   turns.Raw `json:"refusal"`
	Reasoning turns.Raw `json:"reasoning_content"`
	Thought   turns.Raw `json:"reasoning"` // as OpenRouter, vLLM and others call it
	Calls     []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string    `json:"name"`
			Arguments turns.Raw `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (r *chatReader) event(e sseEvent) (bool, error) {
	if string(e.data) == "[DONE]" {
		r.done = true
		return true, nil
	}
	var c chatChunk
	if err := lenient(e.data, &c); err != nil {
		return false, broken("an event is no chunk")
	}
	if c.Error.Kind() != 0 && c.Error.Kind() != 'n' {
		message, code, _ := failureOf(e.data)
		return false, errorOf(0, message, code)
	}
	r.head(&c)
	for i := range c.Choices {
		ch := &c.Choices[i]
		if ch.Index != 0 { // only one was asked for
			continue
		}
		for _, d := range []*chatDelta{&ch.Delta, &ch.Message} {
			if err := r.delta(d); err != nil {
				return false, err
			}
		}
		if s := textOf(ch.Finish); s != "" {
			r.finish = s
		}
	}
	return false, nil
}

// delta adds what a choice brings.
func (r *chatReader) delta(d *chatDelta) error {
	thought := textOf(d.Reasoning)
	if thought == "" {
		thought = textOf(d.Thought)
	}
	if err := r.text(turns.Reasoning, false, thought); err != nil {
		return err
	}
	if err := r.text(turns.Text, false, textOf(d.Content)); err != nil {
		return err
	}
	if err := r.text(turns.Text, true, textOf(d.Refusal)); err != nil {
		return err
	}
	for _, call := range d.Calls {
		args := textOf(call.Function.Arguments)
		if k := call.Function.Arguments.Kind(); k == '{' || k == '[' { // a server that sends them as JSON
			args = string(call.Function.Arguments)
		}
		if err := r.call(call.Index, call.ID, call.Function.Name, args); err != nil {
			return err
		}
	}
	return nil
}

func (r *chatReader) head(c *chatChunk) {
	if r.answer.ID == "" {
		r.answer.ID = clip(c.ID)
	}
	if r.answer.Model == "" {
		r.answer.Model = clip(c.Model)
	}
	if c.Tier != "" && c.Tier != "default" {
		r.answer.Details.Tier = clip(c.Tier)
	}
	if u := c.Usage; u != nil && (u.In > 0 || u.Out > 0) {
		cached := uint64(u.Details.Cached)
		r.answer.Usage = &turns.Usage{InputTokens: max(uint64(u.In), cached), OutputTokens: uint64(u.Out), CacheRead: cached}
		r.answer.Details.Reasoning = uint64(u.OutDetails.Reasoning)
	}
}

// text adds to the open part, or begins another where the kind changes.
func (r *chatReader) text(kind turns.PartType, refusal bool, text string) error {
	if text == "" {
		return nil
	}
	if r.open == nil || r.open.kind != kind || r.refuse != refusal {
		if err := r.endText(); err != nil {
			return err
		}
		p, err := r.b.begin(kind, "", "")
		if err != nil {
			return err
		}
		if r.open, r.refuse = p, refusal; kind == turns.Reasoning {
			p.ext = extOf(extChat, members{"from": r.row})
		}
	}
	event := Delta
	if refusal {
		event, r.answer.Refused = RefusalDelta, true
	}
	return r.b.add(r.open, event, text)
}

func (r *chatReader) endText() error {
	p := r.open
	if r.open = nil; p == nil {
		return nil
	}
	return r.b.end(p)
}

// call adds to a call. Some servers leave the index out, and some give all calls the same:
// then another id is another call.
func (r *chatReader) call(index *int, id, name, args string) error {
	if err := r.endText(); err != nil {
		return err
	}
	i := r.last
	if index != nil {
		i = *index
	}
	p := r.calls[i]
	if p == nil || id != "" && name != "" && id != r.given[i] {
		if name == "" {
			return broken("arguments of a call that did not begin")
		}
		var err error
		if p, err = r.b.begin(turns.ToolCall, id, name); err != nil {
			return err
		}
		r.calls[i], r.given[i] = p, id
	}
	r.last = i
	return r.b.add(p, Delta, args)
}

func (r *chatReader) end() (*Answer, error) {
	if !r.done && r.finish == "" {
		return nil, errLost
	}
	reason := "stop"
	switch r.finish {
	case "length", "content_filter":
		reason = r.finish
	case "tool_calls", "function_call":
		reason = "tool_call"
	}
	var err error
	r.answer.Message, err = r.b.finish(reason)
	return &r.answer, err
}
