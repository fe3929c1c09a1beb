package interchange

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// codexRecord is one line of a rollout.
type codexRecord struct {
	Time    string         `json:"timestamp"`
	Type    string         `json:"type"`
	Payload jsontext.Value `json:"payload"`
}

type codexMeta struct {
	ID           string `json:"id"`
	Time         string `json:"timestamp"`
	ForkedFrom   string `json:"forked_from_id"`
	ParentThread string `json:"parent_thread_id"`
	Cwd          string `json:"cwd"`
	Version      string `json:"cli_version"`
	Nickname     string `json:"agent_nickname"`
	AgentRole    string `json:"agent_role"`

	Source       jsontext.Value `json:"source"`
	Git          jsontext.Value `json:"git"`
	Instructions struct {
		Text string `json:"text"`
	} `json:"base_instructions"`

	// Base is where the history before this file ends, of a file that holds a part of a
	// thread only. Codex begins such a file when a thread is resumed.
	Base struct {
		Thread string `json:"thread_id"`
		Offset uint64 `json:"end_byte_offset"`
	} `json:"history_base"`

	Mark jsontext.Value `json:"nexus"` // see exportMark

	rest turns.Raw // members without a place here; nil: none
}

// header reads the members of a session's header that m has no field for.
func (m *codexMeta) header(payload jsontext.Value, line int, loss *lossReport) {
	var rest map[string]turns.Raw
	if decodeLoose(payload, &rest) != nil {
		return
	}
	for _, k := range []string{"id", "timestamp", "forked_from_id", "parent_thread_id", "cwd", "cli_version", "agent_nickname", "agent_role", "git", "base_instructions", "nexus"} {
		delete(rest, k)
	}
	b, err := turns.EncodeJSON(rest)
	switch {
	case err != nil || len(rest) == 0:
	case len(b) > maxMeta:
		loss.add(line, "skipped", plural(len(b), "byte")+" of a session's header, more than meta holds", m.ID)
	default:
		m.rest = b
	}
}

// spawner returns the thread that started this one, "" if there is none.
func (m *codexMeta) spawner() string {
	var s struct {
		Sub struct {
			Spawn struct {
				Parent string `json:"parent_thread_id"`
			} `json:"thread_spawn"`
		} `json:"subagent"`
	}
	if m.Source.Kind() == '{' && decodeLoose(m.Source, &s) == nil && s.Sub.Spawn.Parent != "" {
		return s.Sub.Spawn.Parent
	}
	return m.ParentThread
}

func (m *codexMeta) raw() turns.Raw {
	return encoded(struct {
		Source     string    `json:"source"`
		Session    string    `json:"session_id"`
		ForkedFrom string    `json:"forked_from,omitzero"`
		SpawnedBy  string    `json:"spawned_by,omitzero"`
		Cwd        string    `json:"cwd,omitzero"`
		Version    string    `json:"version,omitzero"`
		Nickname   string    `json:"agent_nickname,omitzero"`
		Role       string    `json:"agent_role,omitzero"`
		Git        turns.Raw `json:"git,omitzero"`
		Header     turns.Raw `json:"header,omitzero"`
	}{"codex", m.ID, m.ForkedFrom, m.spawner(), m.Cwd, m.Version, m.Nickname, m.AgentRole, turns.Raw(m.Git), m.rest})
}

type codexEvent struct {
	Type string `json:"type"`
	Turn string `json:"turn_id"`

	Thread string    `json:"thread_id"`
	Name   turns.Raw `json:"thread_name"`

	Info *struct {
		Total struct {
			Total uint64 `json:"total_tokens"`
		} `json:"total_token_usage"`
		Last struct {
			Input  uint64 `json:"input_tokens"` // cached ones included
			Cached uint64 `json:"cached_input_tokens"`
			Output uint64 `json:"output_tokens"` // reasoning included

			Reasoning uint64 `json:"reasoning_output_tokens"`
		} `json:"last_token_usage"`
	} `json:"info"`
}

type codexCompacted struct {
	Message     string      `json:"message"`
	Replacement []codexItem `json:"replacement_history"`
}

type codexItem struct {
	Type      string         `json:"type"`
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	Phase     string         `json:"phase"`
	Name      string         `json:"name"`
	CallID    string         `json:"call_id"`
	Arguments jsontext.Value `json:"arguments"` // of a function_call JSON in a string, of a tool_search_call an object
	Input     string         `json:"input"`
	Action    jsontext.Value `json:"action"`
	Output    jsontext.Value `json:"output"`
	Tools     jsontext.Value `json:"tools"` // of a tool_search_output: those that were found
	Summary   []codexText    `json:"summary"`
	Encrypted string         `json:"encrypted_content"`
}

type codexText struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Image string `json:"image_url"`
}

// item reads an item that the model saw or made.
func (c *codexReader) item(line int, r *codexRecord, it *codexItem) {
	c.taskEnded = false
	m, isMessage := c.message(line, it)
	fromModel := (isMessage && m.Role == turns.Assistant) || it.Type == "reasoning" || strings.HasSuffix(it.Type, "_call")
	if fromModel {
		c.flushUncounted()
	} else {
		c.finish()
	}
	at := parseTime(turns.RawText(r.Time))
	if len(c.response.Parts) == 0 {
		c.responseTime, c.responseModel, c.responseSettings = at, c.model, c.inForce
	}
	switch {
	case isMessage && fromModel:
		c.response.Parts = append(c.response.Parts, m.Parts...)
	case isMessage:
		c.messages = append(c.messages, m)
	case it.Type == "reasoning":
		c.reasoning(it, r.Payload)
	case it.CallID != "" && strings.HasSuffix(it.Type, "_call"):
		c.call(line, it)
	case strings.HasSuffix(it.Type, "_call"): // the provider's own tool: no call to answer
		c.response.Parts = append(c.response.Parts, turns.Part{Type: turns.Reasoning, Content: "[" + it.Type + "]", Ext: providerExt("openai", "item", turns.Raw(r.Payload))})
		c.loss.count("repaired", "calls of the provider's own tools are kept as reasoning")
	case it.CallID != "" && it.Type == "tool_search_output":
		found := jsontext.Value("[]")
		if it.Tools.Kind() == '[' {
			found = it.Tools
		}
		it.Output = jsontext.Value(encoded(map[string]turns.Raw{"tools": turns.Raw(found)}))
		c.messages = append(c.messages, c.output(line, it))
	case strings.HasSuffix(it.Type, "_call_output"):
		c.messages = append(c.messages, c.output(line, it))
	default:
		c.loss.count("skipped", "items of type "+strconv.Quote(it.Type))
	}
}

// message returns the message of an item. ok is false if the item is none.
func (c *codexReader) message(line int, it *codexItem) (m turns.Message, ok bool) {
	if it.Type != "message" {
		return m, false
	}
	switch it.Role {
	case "user":
		m.Role = turns.User
	case "developer", "system":
		m.Role = turns.System
	case "assistant":
		m.Role = turns.Assistant
	default:
		c.loss.add(line, "repaired", "a message of role "+strconv.Quote(it.Role)+" is kept as the user's", "")
		m.Role = turns.User
	}
	m.Parts = codexParts(it.Content, &c.loss, line)
	if it.Phase != "" {
		ext := providerExt("openai", "phase", turns.RawText(it.Phase))
		for i := range m.Parts {
			m.Parts[i].Ext = ext
		}
	}
	return m, true
}

// codexParts returns the parts of a content: a text, or a list of texts and images.
func codexParts(v jsontext.Value, loss *lossReport, line int) (out []turns.Part) {
	if s, ok := turns.Raw(v).Text(); ok {
		return []turns.Part{turns.TextPart(s)}
	}
	var list []codexText
	if len(v) > 0 && v.Kind() != 'n' && decodeLoose(v, &list) != nil {
		loss.add(line, "repaired", "content of no known form is kept as its JSON", "")
		return []turns.Part{turns.TextPart(string(v))}
	}
	for _, t := range list {
		switch {
		case t.Type == "input_image" && t.Image != "":
			out = append(out, imagePart(t.Image))
		case strings.HasSuffix(t.Type, "text"):
			out = append(out, turns.TextPart(t.Text))
		default:
			loss.add(line, "skipped", "content of type "+strconv.Quote(t.Type), "")
		}
	}
	return out
}

// reasoning reads a reasoning item. It keeps the text, and the item itself for the
// provider, which alone can decrypt it.
func (c *codexReader) reasoning(it *codexItem, raw jsontext.Value) {
	var text []string
	for _, s := range it.Summary {
		text = append(text, s.Text)
	}
	var content []codexText
	if it.Content.Kind() == '[' && decodeLoose(it.Content, &content) == nil {
		for _, s := range content {
			text = append(text, s.Text)
		}
	}
	if len(text) == 0 && it.Encrypted == "" {
		c.loss.count("skipped", "reasoning items that hold nothing")
		return
	}
	c.response.Parts = append(c.response.Parts, turns.Part{Type: turns.Reasoning, Content: strings.Join(text, "\n"), Ext: providerExt("openai", "item", turns.Raw(raw))})
}

// call reads a call that needs an answer. The input of a custom tool is free text, which
// becomes a JSON string.
func (c *codexReader) call(line int, it *codexItem) {
	p := turns.Part{Type: turns.ToolCall, ID: c.calls.add(line, it.CallID, c.response.Calls(nil), &c.loss), Name: it.Name}
	switch {
	case it.Type == "function_call", it.Type == "tool_search_call":
		p.Arguments = turns.Raw(it.Arguments)
		if s, ok := p.Arguments.Text(); ok {
			p.Arguments = argumentsText(s)
		}
	case it.Type == "custom_tool_call":
		p.Arguments, p.Ext = turns.RawText(it.Input), turns.Raw(`{"openai":{"type":"custom"}}`)
	default:
		p.Arguments = turns.Raw(it.Action)
	}
	p.Arguments = argumentsOrEmpty(p.Arguments)
	if p.Name == "" {
		p.Name = strings.TrimSuffix(it.Type, "_call")
	}
	p.Name = c.loss.toolName(line, p.Name, it.CallID)
	c.response.Parts = append(c.response.Parts, p)
}

// output returns the result of a call. A result whose call is not in the file becomes
// user text.
func (c *codexReader) output(line int, it *codexItem) turns.Message {
	response := turns.Raw(it.Output)
	if it.Output.Kind() == '[' {
		if r, err := resultOf(codexParts(it.Output, &c.loss, line)); err == nil {
			response = r
		}
	}
	if response == nil {
		response = turns.RawText("")
	}
	id, ok := c.calls.answeredBy(it.CallID)
	if !ok {
		c.loss.add(line, "repaired", "a tool result is kept as text: its call is not in the file", it.CallID)
		return turns.TextMessage(turns.User, orphanText(it.CallID)+"\n"+jsonText(response))
	}
	return turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: response}}}
}
