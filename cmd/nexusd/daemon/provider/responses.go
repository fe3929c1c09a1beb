package provider

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// responses speaks OpenAI's responses. It keeps nothing at the provider: each call has the
// whole context, and opaque reasoning comes back with it.
type responses struct{ row Row }

type responsesRequest struct {
	Model        string         `json:"model"`
	Input        []any          `json:"input"`
	Instructions string         `json:"instructions,omitzero"`
	Stream       bool           `json:"stream"`
	Store        bool           `json:"store"`
	Include      []string       `json:"include,omitempty"`
	Tools        []any          `json:"tools,omitempty"`
	ToolChoice   any            `json:"tool_choice,omitempty"`
	Parallel     *bool          `json:"parallel_tool_calls,omitzero"`
	Text         map[string]any `json:"text,omitempty"`
	Reasoning    map[string]any `json:"reasoning,omitempty"`
	MaxOutput    uint64         `json:"max_output_tokens,omitzero"`
	Temperature  *float64       `json:"temperature,omitzero"`
	TopP         *float64       `json:"top_p,omitzero"`
	TopLogprobs  *int           `json:"top_logprobs,omitzero"`
	CacheKey     string         `json:"prompt_cache_key,omitzero"`
	Safety       string         `json:"safety_identifier,omitzero"`
	Tier         string         `json:"service_tier,omitzero"`
}

type object = map[string]any

func (d responses) request(r *Request) *responsesRequest {
	out := &responsesRequest{Model: r.Model, Input: []any{}, Stream: true, Parallel: r.Parallel, MaxOutput: r.MaxOutput, Temperature: r.Temperature, TopP: r.TopP,
		TopLogprobs: r.TopLogprobs, CacheKey: r.CacheKey, Safety: r.User, Tier: r.ServiceTier, Reasoning: object{}, Text: object{}}
	for i, s := range r.System {
		if i > 0 {
			out.Instructions += "\n\n"
		}
		out.Instructions += s
	}
	for i := range r.Messages {
		out.Input = append(out.Input, inputOf(&r.Messages[i])...)
	}
	if r.Reasoning.Effort != "" {
		out.Reasoning["effort"] = r.Reasoning.Effort
	}
	if r.Reasoning.Summary != "" {
		out.Reasoning["summary"] = r.Reasoning.Summary
	}
	if r.Reasoning.Encrypted {
		out.Include = []string{"reasoning.encrypted_content"}
	}
	if r.Verbosity != "" {
		out.Text["verbosity"] = r.Verbosity
	}
	switch r.Format.Type {
	case "json_object":
		out.Text["format"] = object{"type": "json_object"}
	case "json_schema":
		f := schemaOf(r.Format)
		f.Type = "json_schema"
		out.Text["format"] = f
	}
	var allowed []any
	for _, t := range r.Tools {
		if t.Raw != nil {
			out.Tools = append(out.Tools, t.Raw)
			continue
		}
		f := object{"type": "function", "name": t.Name, "parameters": object{}, "strict": false}
		if t.Description != "" {
			f["description"] = t.Description
		}
		if t.Parameters != nil {
			f["parameters"] = t.Parameters
		}
		if t.Strict != nil {
			f["strict"] = *t.Strict
		}
		out.Tools = append(out.Tools, f)
		if slices.Contains(r.ToolChoice.Allowed, t.Name) {
			allowed = append(allowed, object{"type": "function", "name": t.Name})
		}
	}
	switch c := r.ToolChoice; {
	case len(out.Tools) == 0:
	case c.Name != "":
		out.ToolChoice = object{"type": "function", "name": c.Name}
	case c.Allowed != nil && len(allowed) == 0:
		out.ToolChoice = "none"
	case c.Allowed != nil:
		mode := c.Mode
		if mode == "" {
			mode = "auto"
		}
		out.ToolChoice = object{"type": "allowed_tools", "mode": mode, "tools": allowed}
	case c.Mode != "":
		out.ToolChoice = c.Mode
	}
	return out
}

// inputOf is a message as items.
func inputOf(m *turns.Message) (items []any) {
	var content []any
	flush := func() {
		if content != nil {
			items = append(items, object{"type": "message", "role": string(m.Role), "content": content})
		}
		content = nil
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		switch p.Type {
		case turns.ToolCall:
			flush()
			args := string(p.Arguments)
			if text, ok := p.Arguments.Text(); ok {
				args = text
			}
			items = append(items, object{"type": "function_call", "call_id": p.ID, "name": p.Name, "arguments": args})
		case turns.ToolCallResponse:
			flush()
			items = append(items, object{"type": "function_call_output", "call_id": p.ID, "output": outputText(p.Response)})
		case turns.Reasoning:
			if item := reasoningItem(p); item != nil {
				flush()
				items = append(items, item)
			}
		default:
			if c := contentOf(m.Role, p); c != nil {
				content = append(content, c)
			}
		}
	}
	flush()
	return items
}

// reasoningItem is opaque reasoning as it came; nil: it is of another provider.
func reasoningItem(p *turns.Part) any {
	var x struct {
		OpenAI struct {
			Item      turns.Raw `json:"item"`
			Encrypted string    `json:"encrypted_content"`
		} `json:"openai"`
	}
	if p.Ext == nil || json.Unmarshal(p.Ext, &x) != nil {
		return nil
	}
	if x.OpenAI.Item.Kind() == '{' {
		return x.OpenAI.Item
	}
	if x.OpenAI.Encrypted != "" {
		return object{"type": "reasoning", "summary": []any{}, "encrypted_content": x.OpenAI.Encrypted}
	}
	return nil
}

func outputText(raw turns.Raw) any {
	if text, ok := raw.Text(); ok {
		return text
	}
	var parts []turns.Part
	if raw.Kind() != '[' || json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	list := []any{}
	for i := range parts {
		if c := contentOf(turns.User, &parts[i]); c != nil {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return string(raw)
	}
	return list
}

func contentOf(role turns.Role, p *turns.Part) any {
	media := p.Content
	if p.Type == turns.Blob {
		media = "data:" + p.MimeType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
	}
	switch {
	case p.Type == turns.Text && role == turns.Assistant:
		return object{"type": "output_text", "text": p.Content}
	case p.Type == turns.Text:
		return object{"type": "input_text", "text": p.Content}
	case role == turns.Assistant:
		return nil // nothing but text may stand there
	case p.Type == turns.File && p.Modality == "image":
		return object{"type": "input_image", "file_id": p.Content}
	case p.Type == turns.File:
		return object{"type": "input_file", "file_id": p.Content}
	case p.Modality == "image":
		return object{"type": "input_image", "image_url": media}
	case p.Type == turns.Blob:
		return object{"type": "input_file", "filename": "file", "file_data": media}
	}
	return object{"type": "input_file", "file_url": media}
}

type responsesEvent struct {
	Type         string    `json:"type"`
	OutputIndex  int       `json:"output_index"`
	ContentIndex int       `json:"content_index"`
	SummaryIndex int       `json:"summary_index"`
	Delta        string    `json:"delta"`
	Arguments    string    `json:"arguments"`
	Item         turns.Raw `json:"item"`
	Error        turns.Raw `json:"error"`
	Message      string    `json:"message"`
	Code         turns.Raw `json:"code"`
	Response     struct {
		ID         string    `json:"id"`
		Model      string    `json:"model"`
		Tier       string    `json:"service_tier"`
		Error      turns.Raw `json:"error"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Usage *struct {
			Input   uint64 `json:"input_tokens"`
			Output  uint64 `json:"output_tokens"`
			Details struct {
				Cached uint64 `json:"cached_tokens"`
			} `json:"input_tokens_details"`
			OutputDetails struct {
				Reasoning uint64 `json:"reasoning_tokens"`
			} `json:"output_tokens_details"`
		} `json:"usage"`
	} `json:"response"`
}

type responsesItem struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// responsesAnswer reads the stream of an answer. A part is an item, or a part of a message's
// content.
type responsesAnswer struct {
	row    Row
	out    collector
	at     map[[2]int]int // by output and content index; of other items the content index is 0
	said   map[int]bool   // calls whose arguments came in pieces
	refuse map[int]bool
	answer Answer
	reason string
	calls  bool
}

func (d responses) Generate(ctx context.Context, r *Request, emit func(Event) error) (*Answer, error) {
	body, err := turns.EncodeJSON(d.request(r))
	if err != nil {
		return nil, fmt.Errorf("encode a request: %w", err)
	}
	h := http.Header{}
	if d.row.Key != "" {
		h.Set("Authorization", "Bearer "+d.row.Key)
	}
	a := &responsesAnswer{row: d.row, out: collector{emit: emit}, at: make(map[[2]int]int), said: make(map[int]bool), refuse: make(map[int]bool)}
	if err := d.row.call(ctx, "/responses", h, body, a.take); err != nil {
		return nil, err
	}
	if err := a.out.last(nil); err != nil {
		return nil, err
	}
	if a.reason == "" {
		a.reason = "stop"
		if a.calls {
			a.reason = "tool_calls"
		}
	}
	a.answer.Message = a.out.message(reasonOf(a.reason))
	return &a.answer, nil
}

func (a *responsesAnswer) take(_ string, data []byte) error {
	if string(data) == "[DONE]" {
		return errDone
	}
	var e responsesEvent
	if err := json.Unmarshal(data, &e, jsontext.AllowDuplicateNames(true)); err != nil {
		return lost("a piece of it is no JSON of a response's event")
	}
	switch e.Type {
	case "response.output_item.added":
		return a.added(&e)
	case "response.output_text.delta":
		return a.say(&e, turns.Text, Delta)
	case "response.refusal.delta":
		return a.say(&e, turns.Text, RefusalDelta)
	case "response.reasoning.delta", "response.reasoning_text.delta":
		return a.say(&e, turns.Reasoning, Delta)
	case "response.reasoning_summary_text.delta":
		at, err := a.part([2]int{e.OutputIndex, 0}, turns.Reasoning)
		if err != nil {
			return err
		}
		return a.out.summarize(at, e.SummaryIndex, e.Delta)
	case "response.function_call_arguments.delta":
		at, ok := a.at[[2]int{e.OutputIndex, 0}]
		if !ok {
			return lost("arguments of a call that did not begin")
		}
		a.said[e.OutputIndex] = true
		return a.out.add(at, Delta, e.Delta)
	case "response.output_item.done":
		return a.done(&e)
	case "response.completed", "response.incomplete":
		a.answer.ID, a.answer.Model, a.answer.Details.Tier = keep("", e.Response.ID), keep("", e.Response.Model), keep("", e.Response.Tier)
		if e.Type == "response.incomplete" {
			if a.reason = e.Response.Incomplete.Reason; a.reason == "" {
				a.reason = "max_output_tokens"
			}
		}
		if u := e.Response.Usage; u != nil {
			a.answer.Usage = &turns.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheRead: u.Details.Cached}
			a.answer.Details.Reasoning = u.OutputDetails.Reasoning
		}
		return errDone
	case "response.failed", "response.cancelled":
		return a.row.broken(e.Response.Error)
	case "error":
		if e.Error.Kind() == '{' {
			return a.row.broken(e.Error)
		}
		b, err := turns.EncodeJSON(object{"message": e.Message, "code": e.Code})
		if err != nil {
			b = nil
		}
		return a.row.broken(b)
	}
	return nil // events of tools that the provider runs, and new ones
}

func (a *responsesAnswer) part(at [2]int, t turns.PartType) (i int, err error) {
	i, ok := a.at[at]
	if ok {
		if a.out.parts[i].Type != t {
			return 0, lost("a piece belongs to a part of another type")
		}
		return i, nil
	}
	if i, err = a.out.begin(t, "", ""); err == nil {
		a.at[at] = i
	}
	return i, err
}

func (a *responsesAnswer) say(e *responsesEvent, t turns.PartType, kind Kind) error {
	at := [2]int{e.OutputIndex, e.ContentIndex}
	if t == turns.Reasoning {
		at[1] = 0
	}
	i, err := a.part(at, t)
	if err != nil {
		return err
	}
	if kind == RefusalDelta {
		a.refuse[i] = true
	}
	return a.out.add(i, kind, e.Delta)
}

func (a *responsesAnswer) added(e *responsesEvent) error {
	var it responsesItem
	if e.Item.Kind() != '{' || json.Unmarshal(e.Item, &it) != nil {
		return lost("an item that is none")
	}
	at := [2]int{e.OutputIndex, 0}
	if _, ok := a.at[at]; ok {
		return lost("two items have the same place")
	}
	switch it.Type {
	case "function_call":
		i, err := a.out.begin(turns.ToolCall, it.CallID, it.Name)
		if err != nil {
			return err
		}
		a.at[at], a.calls = i, true
	case "reasoning":
		_, err := a.part(at, turns.Reasoning)
		return err
	}
	return nil
}

func (a *responsesAnswer) done(e *responsesEvent) error {
	var it responsesItem
	if e.Item.Kind() != '{' || json.Unmarshal(e.Item, &it) != nil {
		return lost("an item that is none")
	}
	var ends []int
	for key, i := range a.at {
		if key[0] == e.OutputIndex {
			ends = append(ends, i)
		}
	}
	slices.Sort(ends)
	for _, i := range ends {
		var ext any
		switch it.Type {
		case "reasoning":
			ext = object{"openai": object{"item": e.Item}}
		case "function_call":
			if !a.said[e.OutputIndex] {
				if err := a.out.add(i, Delta, it.Arguments); err != nil {
					return err
				}
			}
		case "message":
			if a.refuse[i] {
				ext = refusalExt
			}
		}
		if err := a.out.end(i, ext); err != nil {
			return err
		}
	}
	return nil
}
