package provider

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/interchange"
)

// chat speaks OpenAI's chat completions.
type chat struct{ row Row }

type chatRequest struct {
	Model         string           `json:"model"`
	Messages      []jsontext.Value `json:"messages"`
	Stream        bool             `json:"stream"`
	StreamOptions map[string]bool  `json:"stream_options"`
	Tools         []chatTool       `json:"tools,omitempty"`
	ToolChoice    any              `json:"tool_choice,omitempty"`
	Parallel      *bool            `json:"parallel_tool_calls,omitzero"`
	Format        any              `json:"response_format,omitempty"`
	Effort        string           `json:"reasoning_effort,omitzero"`
	MaxTokens     uint64           `json:"max_tokens,omitzero"`
	MaxCompletion uint64           `json:"max_completion_tokens,omitzero"`
	Temperature   *float64         `json:"temperature,omitzero"`
	TopP          *float64         `json:"top_p,omitzero"`
	Presence      *float64         `json:"presence_penalty,omitzero"`
	Frequency     *float64         `json:"frequency_penalty,omitzero"`
	Verbosity     string           `json:"verbosity,omitzero"`
	CacheKey      string           `json:"prompt_cache_key,omitzero"`
	User          string           `json:"user,omitzero"`
	Tier          string           `json:"service_tier,omitzero"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitzero"`
	Parameters  turns.Raw `json:"parameters,omitzero"`
	Strict      *bool     `json:"strict,omitzero"`
}

// sections are the instructions, as renderers take them.
func sections(texts []string) (out []turns.Section) {
	for _, t := range texts {
		out = append(out, turns.Section{Content: t})
	}
	return out
}

// offered are the functions that a request's choice leaves, for dialects that can't name a
// choice of several.
func offered(r *Request) (out []Tool) {
	for _, t := range r.Tools {
		if t.Raw == nil && (r.ToolChoice.Allowed == nil || slices.Contains(r.ToolChoice.Allowed, t.Name)) {
			out = append(out, t)
		}
	}
	return out
}

func (c chat) request(r *Request) (*chatRequest, error) {
	messages, err := interchange.OpenAI(sections(r.System), nil, r.Messages)
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: "the context can't be said in this provider's form: " + err.Error()}
	}
	out := &chatRequest{Model: r.Model, Messages: messages.Messages, Stream: true, StreamOptions: map[string]bool{"include_usage": true},
		Effort: r.Reasoning.Effort, Temperature: r.Temperature, TopP: r.TopP, Presence: r.Presence, Frequency: r.Frequency, Verbosity: r.Verbosity,
		CacheKey: r.CacheKey, User: r.User, Tier: r.ServiceTier}
	if strings.Contains(c.row.URL, "api.openai.com") { // its newer models refuse the older name, and other servers know only that
		out.MaxCompletion = r.MaxOutput
	} else {
		out.MaxTokens = r.MaxOutput
	}
	for _, t := range offered(r) {
		out.Tools = append(out.Tools, chatTool{"function", chatFunction{t.Name, t.Description, t.Parameters, t.Strict}})
	}
	if len(out.Tools) > 0 {
		out.Parallel = r.Parallel
		switch {
		case r.ToolChoice.Name != "":
			out.ToolChoice = map[string]any{"type": "function", "function": map[string]string{"name": r.ToolChoice.Name}}
		case r.ToolChoice.Mode != "":
			out.ToolChoice = r.ToolChoice.Mode
		}
	}
	switch r.Format.Type {
	case "json_object":
		out.Format = map[string]string{"type": "json_object"}
	case "json_schema":
		out.Format = map[string]any{"type": "json_schema", "json_schema": schemaOf(r.Format)}
	}
	return out, nil
}

// schema is a format of JSON that follows a schema.
type schema struct {
	Type        string    `json:"type,omitzero"`
	Name        string    `json:"name"`
	Description string    `json:"description,omitzero"`
	Schema      turns.Raw `json:"schema"`
	Strict      *bool     `json:"strict,omitzero"`
}

func schemaOf(f Format) schema {
	return schema{Name: f.Name, Description: f.Description, Schema: f.Schema, Strict: f.Strict}
}

type chatChunk struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content          *string `json:"content"`
			Refusal          *string `json:"refusal"`
			ReasoningContent *string `json:"reasoning_content"`
			Reasoning        *string `json:"reasoning"`
			ToolCalls        []struct {
				Index    *int   `json:"index"`
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     uint64 `json:"prompt_tokens"`
		Completion uint64 `json:"completion_tokens"`
		Input      struct {
			Cached uint64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Output struct {
			Reasoning uint64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
	Tier  string    `json:"service_tier"`
	Error turns.Raw `json:"error"`
}

// chatAnswer reads the stream of an answer.
type chatAnswer struct {
	row     Row
	out     collector
	text    int // the part that is open; -1: none
	thought int
	refused bool
	calls   map[int]int // by the provider's index
	reason  string
	answer  Answer
}

func (c chat) Generate(ctx context.Context, r *Request, emit func(Event) error) (*Answer, error) {
	req, err := c.request(r)
	if err != nil {
		return nil, err
	}
	body, err := turns.EncodeJSON(req)
	if err != nil {
		return nil, fmt.Errorf("encode a request: %w", err)
	}
	h := http.Header{}
	if c.row.Key != "" {
		h.Set("Authorization", "Bearer "+c.row.Key)
	}
	a := &chatAnswer{row: c.row, out: collector{emit: emit}, text: -1, thought: -1, calls: make(map[int]int)}
	if err := c.row.call(ctx, "/chat/completions", h, body, a.take); err != nil {
		return nil, err
	}
	if a.reason == "" {
		return nil, lost("the stream ended without a reason")
	}
	if err := a.out.last(a.ext); err != nil {
		return nil, err
	}
	a.answer.Message = a.out.message(reasonOf(a.reason))
	return &a.answer, nil
}

func (a *chatAnswer) ext(i int) any {
	if a.refused && i == a.text {
		return refusalExt
	}
	return nil
}

func (a *chatAnswer) take(_ string, data []byte) error {
	if string(data) == "[DONE]" {
		return errDone
	}
	var c chatChunk
	if err := json.Unmarshal(data, &c, jsontext.AllowDuplicateNames(true)); err != nil {
		return lost("a piece of it is no JSON of a chat completion")
	}
	if c.Error.Kind() == '{' || c.Error.Kind() == '"' {
		return a.row.broken(c.Error)
	}
	a.answer.ID, a.answer.Model, a.answer.Details.Tier = keep(a.answer.ID, c.ID), keep(a.answer.Model, c.Model), keep(a.answer.Details.Tier, c.Tier)
	if u := c.Usage; u != nil {
		a.answer.Usage = &turns.Usage{InputTokens: u.Prompt, OutputTokens: u.Completion, CacheRead: u.Input.Cached}
		a.answer.Details.Reasoning = u.Output.Reasoning
	}
	for i := range c.Choices {
		ch := &c.Choices[i]
		if ch.Index != 0 {
			continue // one was asked for
		}
		d := &ch.Delta
		for _, s := range []*string{d.ReasoningContent, d.Reasoning} {
			if s != nil && *s != "" {
				if err := a.say(&a.thought, turns.Reasoning, Delta, *s); err != nil {
					return err
				}
				break
			}
		}
		if d.Content != nil && *d.Content != "" {
			if err := a.say(&a.text, turns.Text, Delta, *d.Content); err != nil {
				return err
			}
		}
		if d.Refusal != nil && *d.Refusal != "" {
			a.refused = true
			if err := a.say(&a.text, turns.Text, RefusalDelta, *d.Refusal); err != nil {
				return err
			}
		}
		for _, call := range d.ToolCalls {
			n := 0
			if call.Index != nil {
				n = *call.Index
			} else if call.ID != "" {
				n = len(a.calls)
			} else {
				n = len(a.calls) - 1
			}
			at, open := a.calls[n]
			if !open {
				if err := a.close(&a.text, &a.thought); err != nil {
					return err
				}
				var err error
				if at, err = a.out.begin(turns.ToolCall, call.ID, call.Function.Name); err != nil {
					return err
				}
				a.calls[n] = at
			}
			if err := a.out.add(at, Delta, call.Function.Arguments); err != nil {
				return err
			}
		}
		if ch.FinishReason != nil && *ch.FinishReason != "" {
			a.reason = *ch.FinishReason
		}
	}
	return nil
}

// say adds to the text or the reasoning that is open, or begins one.
func (a *chatAnswer) say(at *int, t turns.PartType, kind Kind, text string) (err error) {
	if *at < 0 {
		other := &a.text
		if t == turns.Text {
			other = &a.thought
		}
		if err := a.close(other); err != nil {
			return err
		}
		if *at, err = a.out.begin(t, "", ""); err != nil {
			return err
		}
	}
	return a.out.add(*at, kind, text)
}

func (a *chatAnswer) close(parts ...*int) error {
	for _, at := range parts {
		if *at < 0 {
			continue
		}
		if err := a.out.end(*at, a.ext(*at)); err != nil {
			return err
		}
		*at = -1
	}
	return nil
}

func keep(old, s string) string {
	if old != "" || len(s) > turns.MaxName {
		return old
	}
	return s
}

// broken is an error that a provider sent in a stream that it had begun.
func (r Row) broken(raw turns.Raw) error {
	var said struct {
		Message string    `json:"message"`
		Type    string    `json:"type"`
		Code    turns.Raw `json:"code"`
	}
	e := &Error{Code: "model_error", Lost: true}
	if text, ok := raw.Text(); ok {
		e.Message = text
	} else if json.Unmarshal(raw, &said) == nil {
		e.Message = said.Message
		if code, ok := said.Code.Text(); ok && code != "" {
			e.Code = code
		} else if said.Type != "" {
			e.Code = said.Type
		}
	}
	if e.Message == "" {
		e.Message = "the model failed while it answered"
	}
	e.Message, e.Code = r.clean(e.Message), r.clean(e.Code)
	return e
}
