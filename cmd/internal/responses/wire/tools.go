package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/provider"
	"nexus/turns"
)

func asSemantic(err error, s **json.SemanticError) bool { return errors.As(err, s) }

func HashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

type functionTool struct {
	Type        string    `json:"type"`
	Name        string    `json:"name"`
	Description *string   `json:"description"`
	Parameters  turns.Raw `json:"parameters"`
	Strict      *bool     `json:"strict"`
}

// tools are the request's tools as a provider takes them. A tool that is no function is
// kept as it is: only a provider of OpenAI's kind knows it.
func (r *CreateRequest) tools() (out []provider.Tool, err error) {
	for i, raw := range r.Tools {
		var t functionTool
		if raw.Kind() != '{' || json.Unmarshal(raw, &t) != nil || t.Type == "" {
			return nil, Invalid("tools", "Tool %d is not an object with a type.", i)
		}
		if t.Type != "function" {
			out = append(out, provider.Tool{Name: t.Name, Raw: raw})
			continue
		}
		if t.Name == "" || len(t.Name) > turns.MaxName {
			return nil, Invalid("tools", "Tool %d has no name, or one that is too long.", i)
		}
		p := provider.Tool{Name: t.Name, Strict: t.Strict}
		if t.Description != nil {
			p.Description = *t.Description
		}
		if !IsNull(t.Parameters) {
			if t.Parameters.Kind() != '{' {
				return nil, Invalid("tools", "The parameters of tool %d are not an object.", i)
			}
			p.Parameters = t.Parameters
		}
		out = append(out, p)
	}
	return out, nil
}

// EchoTool is a tool as a response repeats it: of a function all members are there.
func EchoTool(raw turns.Raw) turns.Raw {
	var t functionTool
	if json.Unmarshal(raw, &t) != nil || t.Type != "function" {
		return raw
	}
	if t.Parameters == nil {
		t.Parameters = turns.Raw("null")
	}
	return Encode(struct {
		Type        string    `json:"type"`
		Name        string    `json:"name"`
		Description *string   `json:"description"`
		Parameters  turns.Raw `json:"parameters"`
		Strict      *bool     `json:"strict"`
	}{t.Type, t.Name, t.Description, t.Parameters, t.Strict})
}

// ToolChoice is which tools the model may call.
type ToolChoice struct {
	provider.ToolChoice
	echo turns.Raw // nil: the default
}

// Forbids reports whether a call of name is outside of what the request allows.
func (c *ToolChoice) Forbids(name string) bool {
	switch {
	case c.Mode == "none":
		return true
	case c.Name != "":
		return name != c.Name
	case c.Allowed != nil:
		return !Contains(c.Allowed, name)
	}
	return false
}

func (r *CreateRequest) toolChoice() (c ToolChoice, err error) {
	bad := Invalid("tool_choice", "tool_choice is auto, required, none, a function by its name, or allowed_tools with names of tools and a mode.")
	if IsNull(r.ToolChoice) {
		return c, nil
	}
	if mode, ok := r.ToolChoice.Text(); ok {
		if !Contains([]string{"auto", "required", "none"}, mode) {
			return c, bad
		}
		c.Mode, c.echo = mode, r.ToolChoice
		return c, nil
	}
	var o struct {
		Type  string `json:"type"`
		Name  string `json:"name"`
		Mode  string `json:"mode"`
		Tools []struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"tools"`
	}
	if r.ToolChoice.Kind() != '{' || json.Unmarshal(r.ToolChoice, &o) != nil {
		return c, bad
	}
	known := func(name string) bool {
		for _, raw := range r.Tools {
			var t functionTool
			if json.Unmarshal(raw, &t) == nil && t.Name == name && name != "" {
				return true
			}
		}
		return false
	}
	switch o.Type {
	case "function":
		if !known(o.Name) {
			return c, Invalid("tool_choice", "tool_choice names the function '%s', which is none of tools.", Clip(o.Name))
		}
		c.Name, c.echo = o.Name, Encode(map[string]string{"type": "function", "name": o.Name})
	case "allowed_tools":
		if o.Mode == "" {
			o.Mode = "auto"
		}
		if !Contains([]string{"auto", "required", "none"}, o.Mode) || len(o.Tools) == 0 {
			return c, bad
		}
		c.Mode, c.Allowed = o.Mode, []string{}
		list := []map[string]string{}
		for _, t := range o.Tools {
			if !known(t.Name) {
				return c, Invalid("tool_choice", "allowed_tools names '%s', which is none of tools.", Clip(t.Name))
			}
			c.Allowed = append(c.Allowed, t.Name)
			list = append(list, map[string]string{"type": "function", "name": t.Name})
		}
		c.echo = Encode(map[string]any{"type": "allowed_tools", "mode": o.Mode, "tools": list})
	default: // a tool that the provider runs
		c.echo = r.ToolChoice
	}
	return c, nil
}

// Ask is the request to the provider of a model, upstream there, but for what the context gives.
func (r *CreateRequest) Ask(upstream string) (*provider.Request, ToolChoice, error) {
	list, err := r.tools()
	if err != nil {
		return nil, ToolChoice{}, err
	}
	choice, err := r.toolChoice()
	if err != nil {
		return nil, choice, err
	}
	p := &provider.Request{Model: upstream, Tools: list, ToolChoice: choice.ToolChoice, Parallel: r.ParallelToolCalls, Temperature: r.Temperature, TopP: r.TopP,
		Presence: r.PresencePenalty, Frequency: r.FrequencyPenalty, TopLogprobs: r.TopLogprobs}
	fill(&p.MaxOutput, r.MaxOutputTokens)
	fill(&p.CacheKey, r.PromptCacheKey)
	fill(&p.ServiceTier, r.ServiceTier)
	fill(&p.User, r.User)
	fill(&p.User, r.SafetyIdentifier)
	p.Reasoning.Encrypted = r.Includes("reasoning.encrypted_content")
	if r.Reasoning != nil {
		fill(&p.Reasoning.Effort, r.Reasoning.Effort)
		fill(&p.Reasoning.Summary, r.Reasoning.Summary)
	}
	if t := r.Text; t != nil {
		fill(&p.Verbosity, t.Verbosity)
		if f := t.Format; f != nil {
			p.Format = provider.Format{Type: f.Type, Name: f.Name, Schema: f.Schema, Strict: f.Strict}
			fill(&p.Format.Description, f.Description)
		}
	}
	return p, choice, nil
}

// CheckCalls refuses outputs of calls that nobody made; of a recorded request the ledger does.
func CheckCalls(ms []turns.Message) error {
	calls := make(map[string]bool)
	for i := range ms {
		for j := range ms[i].Parts {
			switch p := &ms[i].Parts[j]; p.Type {
			case turns.ToolCall:
				calls[p.ID] = true
			case turns.ToolCallResponse:
				if !calls[p.ID] {
					return Invalid("input", "No tool call found for function call output with call_id %s.", Clip(p.ID))
				}
			}
		}
	}
	return nil
}
