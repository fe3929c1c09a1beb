package provider

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/interchange"
)

// anthropic speaks Anthropic's messages.
type anthropic struct{ row Row }

// anthropicVersion is the version of the API that this is written for.
const anthropicVersion = "2023-06-01"

// anthropicOutput is what an answer may have where the request names no bound: the API
// wants one.
const anthropicOutput = 8192

type anthropicRequest struct {
	Model       string           `json:"model"`
	MaxTokens   uint64           `json:"max_tokens"`
	System      jsontext.Value   `json:"system,omitzero"`
	Messages    []jsontext.Value `json:"messages"`
	Stream      bool             `json:"stream"`
	Tools       []object         `json:"tools,omitempty"`
	ToolChoice  object           `json:"tool_choice,omitempty"`
	Temperature *float64         `json:"temperature,omitzero"`
	TopP        *float64         `json:"top_p,omitzero"`
	Thinking    object           `json:"thinking,omitempty"`
	Output      object           `json:"output_config,omitempty"`
	Metadata    object           `json:"metadata,omitempty"`
}

// thinkingTokens are how much the model may think, by effort. It is a part of the output.
var thinkingTokens = map[string]uint64{"low": 2048, "medium": 8192, "high": 24_576, "xhigh": 32_768}

func (d anthropic) request(r *Request) (*anthropicRequest, error) {
	rendered, err := interchange.Anthropic(sections(r.System), nil, r.Messages)
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: "the context can't be said in this provider's form: " + err.Error()}
	}
	out := &anthropicRequest{Model: r.Model, MaxTokens: r.MaxOutput, System: rendered.System, Messages: rendered.Messages, Stream: true, Temperature: r.Temperature, TopP: r.TopP}
	if out.MaxTokens == 0 {
		out.MaxTokens = anthropicOutput
	}
	if budget := thinkingTokens[r.Reasoning.Effort]; budget > 0 && r.ToolChoice.Name == "" && r.ToolChoice.Mode != "required" {
		if r.MaxOutput == 0 {
			out.MaxTokens += budget
		}
		if budget < out.MaxTokens {
			out.Thinking = object{"type": "enabled", "budget_tokens": budget}
			out.Temperature, out.TopP = nil, nil // it takes neither then
		}
	}
	if r.User != "" {
		out.Metadata = object{"user_id": r.User}
	}
	if r.Format.Type == "json_schema" {
		out.Output = object{"format": object{"type": "json_schema", "schema": r.Format.Schema}}
	}
	for _, t := range offered(r) {
		f := object{"name": t.Name, "input_schema": turns.Raw(`{"type":"object"}`)}
		if t.Description != "" {
			f["description"] = t.Description
		}
		if t.Parameters != nil {
			f["input_schema"] = t.Parameters
		}
		out.Tools = append(out.Tools, f)
	}
	if len(out.Tools) == 0 {
		return out, nil
	}
	switch c := r.ToolChoice; {
	case c.Name != "":
		out.ToolChoice = object{"type": "tool", "name": c.Name}
	case c.Mode == "required":
		out.ToolChoice = object{"type": "any"}
	case c.Mode == "none":
		out.ToolChoice = object{"type": "none"}
	case c.Mode == "auto" || r.Parallel != nil:
		out.ToolChoice = object{"type": "auto"}
	}
	if r.Parallel != nil && !*r.Parallel && r.ToolChoice.Mode != "none" {
		out.ToolChoice["disable_parallel_tool_use"] = true
	}
	return out, nil
}

type anthropicUsage struct {
	Input    uint64 `json:"input_tokens"`
	Output   uint64 `json:"output_tokens"`
	Read     uint64 `json:"cache_read_input_tokens"`
	Creation uint64 `json:"cache_creation_input_tokens"`
	Tier     string `json:"service_tier"`
}

type anthropicEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		ID    string          `json:"id"`
		Model string          `json:"model"`
		Usage *anthropicUsage `json:"usage"`
	} `json:"message"`
	Block struct {
		Type     string `json:"type"`
		ID       string `json:"id"`
		Name     string `json:"name"`
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
		Data     string `json:"data"`
	} `json:"content_block"`
	Delta struct {
		Type      string `json:"type"`
		Text      string `json:"text"`
		JSON      string `json:"partial_json"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		Reason    string `json:"stop_reason"`
	} `json:"delta"`
	Usage *anthropicUsage `json:"usage"`
	Error turns.Raw       `json:"error"`
}

// anthropicAnswer reads the stream of an answer.
type anthropicAnswer struct {
	row    Row
	out    collector
	at     map[int]int // part by the index of its block
	signed map[int]string
	data   map[int]string
	usage  anthropicUsage
	told   bool
	answer Answer
	reason string
}

func (d anthropic) Generate(ctx context.Context, r *Request, emit func(Event) error) (*Answer, error) {
	req, err := d.request(r)
	if err != nil {
		return nil, err
	}
	body, err := turns.EncodeJSON(req)
	if err != nil {
		return nil, fmt.Errorf("encode a request: %w", err)
	}
	h := http.Header{"Anthropic-Version": {anthropicVersion}}
	if d.row.Key != "" {
		h.Set("X-Api-Key", d.row.Key)
	}
	a := &anthropicAnswer{row: d.row, out: collector{emit: emit}, at: make(map[int]int), signed: make(map[int]string), data: make(map[int]string)}
	if err := d.row.call(ctx, "/messages", h, body, a.take); err != nil {
		return nil, err
	}
	if a.reason == "" {
		return nil, lost("the stream ended without a reason")
	}
	if err := a.out.last(a.ext); err != nil {
		return nil, err
	}
	if a.told {
		u := a.usage
		a.answer.Usage = &turns.Usage{InputTokens: u.Input + u.Read + u.Creation, OutputTokens: u.Output, CacheRead: u.Read, CacheCreation: u.Creation}
	}
	a.answer.Message = a.out.message(reasonOf(a.reason))
	return &a.answer, nil
}

// ext is what must come back with a part: the signature of its reasoning.
func (a *anthropicAnswer) ext(i int) any {
	switch {
	case a.signed[i] != "":
		return object{"anthropic": object{"signature": a.signed[i]}}
	case a.data[i] != "":
		return object{"anthropic": object{"data": a.data[i]}}
	}
	return nil
}

func (a *anthropicAnswer) count(u *anthropicUsage) {
	if u == nil {
		return
	}
	a.told = true
	// A later event repeats the counts or leaves them out.
	for _, n := range []struct{ to, from *uint64 }{{&a.usage.Input, &u.Input}, {&a.usage.Output, &u.Output}, {&a.usage.Read, &u.Read}, {&a.usage.Creation, &u.Creation}} {
		if *n.from != 0 {
			*n.to = *n.from
		}
	}
	a.answer.Details.Tier = keep(a.answer.Details.Tier, u.Tier)
}

func (a *anthropicAnswer) take(_ string, data []byte) error {
	var e anthropicEvent
	if err := json.Unmarshal(data, &e, jsontext.AllowDuplicateNames(true)); err != nil {
		return lost("a piece of it is no JSON of a message's event")
	}
	switch e.Type {
	case "message_start":
		a.answer.ID, a.answer.Model = keep("", e.Message.ID), keep("", e.Message.Model)
		a.count(e.Message.Usage)
	case "content_block_start":
		return a.begin(&e)
	case "content_block_delta":
		return a.delta(&e)
	case "content_block_stop":
		if i, ok := a.at[e.Index]; ok {
			return a.out.end(i, a.ext(i))
		}
	case "message_delta":
		if e.Delta.Reason != "" {
			a.reason = e.Delta.Reason
		}
		a.count(e.Usage)
	case "message_stop":
		return errDone
	case "error":
		return a.row.broken(e.Error)
	}
	return nil // pings, and events that are new
}

func (a *anthropicAnswer) begin(e *anthropicEvent) error {
	if _, ok := a.at[e.Index]; ok {
		return lost("two blocks have the place %s", strconv.Itoa(e.Index))
	}
	t := turns.Text
	switch e.Block.Type {
	case "text":
	case "thinking", "redacted_thinking":
		t = turns.Reasoning
	case "tool_use":
		t = turns.ToolCall
	default:
		return nil // of a tool that the provider runs
	}
	i, err := a.out.begin(t, e.Block.ID, e.Block.Name)
	if err != nil {
		return err
	}
	a.at[e.Index], a.data[i] = i, e.Block.Data
	return a.out.add(i, Delta, e.Block.Text+e.Block.Thinking)
}

func (a *anthropicAnswer) delta(e *anthropicEvent) error {
	i, ok := a.at[e.Index]
	if !ok {
		return nil
	}
	switch t := a.out.parts[i].Type; {
	case e.Delta.Type == "signature_delta":
		if a.signed[i] += e.Delta.Signature; len(a.signed[i]) > maxLine {
			return lost("a signature has over %d bytes", maxLine)
		}
		return nil
	case e.Delta.Type == "text_delta" && t == turns.Text:
		return a.out.add(i, Delta, e.Delta.Text)
	case e.Delta.Type == "thinking_delta" && t == turns.Reasoning:
		return a.out.add(i, Delta, e.Delta.Thinking)
	case e.Delta.Type == "input_json_delta" && t == turns.ToolCall:
		return a.out.add(i, Delta, e.Delta.JSON)
	case e.Delta.Type == "text_delta", e.Delta.Type == "thinking_delta", e.Delta.Type == "input_json_delta":
		return lost("a piece belongs to a block of another type")
	}
	return nil
}
