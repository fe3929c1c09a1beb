package codex

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/plain"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
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
func (m *codexMeta) header(payload jsontext.Value, line int, loss *transcript.LossReport) {
	var rest map[string]turns.Raw
	if values.Decode(payload, &rest) != nil {
		return
	}
	for _, k := range []string{"id", "timestamp", "forked_from_id", "parent_thread_id", "cwd", "cli_version", "agent_nickname", "agent_role", "git", "base_instructions", "nexus"} {
		delete(rest, k)
	}
	b, err := turns.EncodeJSON(rest)
	switch {
	case err != nil || len(rest) == 0:
	case len(b) > values.MaxMeta:
		loss.Add(line, "skipped", values.Plural(len(b), "byte")+" of a session's header, more than meta holds", m.ID)
	default:
		m.rest = b
	}
}

// before returns the thread whose history the file may begin with, "" if there is none.
func (m *codexMeta) before() string {
	if m.ForkedFrom != "" {
		return m.ForkedFrom
	}
	return m.spawner()
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
	if m.Source.Kind() == '{' && values.Decode(m.Source, &s) == nil && s.Sub.Spawn.Parent != "" {
		return s.Sub.Spawn.Parent
	}
	return m.ParentThread
}

func (m *codexMeta) raw() turns.Raw {
	return values.Encoded(struct {
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
	}{"codex", m.ID, m.ForkedFrom, m.spawner(), m.Cwd, m.Version, m.Nickname, m.AgentRole, withoutCredentials(turns.Raw(m.Git)), m.rest})
}

// withoutCredentials returns what a transcript says of the repository without the password that the
// URL of its remote may hold.
func withoutCredentials(git turns.Raw) turns.Raw {
	var m map[string]turns.Raw
	if git.Kind() != '{' || values.Decode(jsontext.Value(git), &m) != nil {
		return git
	}
	url, ok := m["repository_url"].Text()
	if clean := turns.WithoutCredentials(url); ok && clean != url {
		m["repository_url"] = turns.RawText(clean)
		return values.Encoded(m)
	}
	return git
}

type codexEvent struct {
	Type string `json:"type"`
	Turn string `json:"turn_id"`

	Thread string    `json:"thread_id"`
	Name   turns.Raw `json:"thread_name"`

	Turns uint64 `json:"num_turns"` // of a rollback: how many prompts
	Model string `json:"to_model"`  // of a reroute

	Info *codexInfo `json:"info"`
}

type codexCompacted struct {
	Message     string           `json:"message"`
	Replacement []jsontext.Value `json:"replacement_history"`
	ResponseID  string           `json:"compaction_response_id"`
}

type codexItem struct {
	Type      string         `json:"type"`
	ID        string         `json:"id"`
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	Phase     string         `json:"phase"`
	Name      string         `json:"name"`
	CallID    string         `json:"call_id"`
	Arguments jsontext.Value `json:"arguments"` // of a function_call JSON in a string, of a tool_search_call an object
	Input     string         `json:"input"`
	Action    jsontext.Value `json:"action"`
	Output    jsontext.Value `json:"output"`
	Prompt    jsontext.Value `json:"prompt"`         // of an image
	Revised   jsontext.Value `json:"revised_prompt"` // of an image
	Tools     jsontext.Value `json:"tools"`          // of a tool_search_output: those that were found
	Summary   []codexText    `json:"summary"`
	Encrypted string         `json:"encrypted_content"`
	Author    string         `json:"author"` // of an agent_message: the agents
	Recipient string         `json:"recipient"`
}

type codexText struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Image string `json:"image_url"`
}

// item reads an item that the model saw or made. Each type has one of these places:
//
//   - The model's: assistant messages, reasoning, and what ends in _call. A call of the
//     provider's own tools (web_search_call, image_generation_call, a tool_search_call
//     without an id) and what it found are kept as reasoning, with the item beside it. So
//     is a summary that the provider made within a response (compaction, context_compaction).
//   - The model's input: other messages, agent_message, and what ends in _output.
//   - Tools that came later (additional_tools) are a loss: a session has one list of tools.
//   - ghost_snapshot, compaction_trigger and configuration_update are for Codex itself, or
//     the settings of a request.
//
// An item of another type changes nothing about the turns, and is a loss.
func (c *codexReader) item(line int, r *codexRecord, it *codexItem) {
	if it.CallID == "" && it.Type == "local_shell_call" {
		it.CallID = it.ID
	}
	m, isMessage := c.message(line, it)
	models := it.isModels() || isMessage && m.Role == turns.Assistant
	isInput := isMessage || it.isOutput()
	if c.taskEnded && (models || isInput) {
		c.finish()
		c.flushUncounted()
	}
	switch {
	case models:
		c.flushUncounted()
		c.counts.flush(&c.Loss)
		if c.responseEnded || c.usage != nil {
			c.finish()
		}
	case isInput && !isMessage && !it.isKnownOutput() && len(c.response.Parts) > 0 && !c.responseEnded && c.usage == nil:
		c.laterOutput(line, r, it)
		return
	case isInput:
		c.finish()
		if isMessage && it.isPrompt() {
			c.prompt()
		}
	default:
		c.otherItem(line, it)
		return
	}
	c.taskEnded = false
	c.anchorAt(it, r)
	if len(c.response.Parts) == 0 {
		c.responseTime, c.responseBound = c.timeOf(values.ParseTime(turns.RawText(r.Time)))
		c.responseModel, c.responseSettings = c.model, c.inForce
	}
	switch {
	case isMessage && models:
		c.response.Parts = append(c.response.Parts, m.Parts...)
	case isMessage:
		if it.isPrograms() {
			c.program = append(c.program, len(c.messages))
		}
		c.messages = append(c.messages, m)
	case it.Type == "reasoning":
		c.reasoning(it, r.Payload)
	case models && it.CallID != "" && strings.HasSuffix(it.Type, "_call"):
		c.call(line, it, r.Payload)
	case models:
		c.response.Parts = append(c.response.Parts, providersOwn(it, r.Payload))
		if it.isSummary() {
			c.Loss.Add(line, "repaired", "a summary that only the provider can read is kept as reasoning; what it stands for stays in the context", it.ID)
			return
		}
		c.Loss.Count("repaired", "calls of the provider's own tools are kept as reasoning")
	default:
		if it.Type == "tool_search_output" {
			found := jsontext.Value("[]")
			if it.Tools.Kind() == '[' {
				found = it.Tools
			}
			it.Output = jsontext.Value(values.Encoded(map[string]turns.Raw{"tools": turns.Raw(found)}))
		}
		c.messages = append(c.messages, c.output(line, it))
	}
}

// laterOutput keeps an output of a type that is not known for the input of the next response.
// The tool may have run in the middle of this one: only a usage tells that this one has ended.
// So a type that the reader learns changes no other turn.
func (c *codexReader) laterOutput(line int, r *codexRecord, it *codexItem) {
	if len(c.later) == 0 {
		c.laterAnchor = c.anchorOf(it, r)
	}
	c.later = append(c.later, c.output(line, it))
	c.taskEnded = false
}

// otherItem reports an item that is neither the model's nor its input.
func (c *codexReader) otherItem(line int, it *codexItem) {
	switch it.Type {
	case "additional_tools":
		c.Loss.Add(line, "skipped", "tools that the model got later than the session began", it.ID)
	case "ghost_snapshot":
		c.Loss.Count("skipped", "snapshots of the work tree, which the model does not see")
	case "compaction_trigger", "configuration_update":
		c.Loss.Count("skipped", "settings of requests: "+it.Type)
	default:
		c.Loss.Count("skipped", "items of type "+strconv.Quote(it.Type))
	}
}

// isModels reports whether the model made an item that is no message.
func (it *codexItem) isModels() bool {
	return it.Type == "reasoning" || strings.HasSuffix(it.Type, "_call") || it.Type == "tool_search_output" && it.CallID == "" || it.isSummary()
}

func (it *codexItem) isOutput() bool {
	return strings.HasSuffix(it.Type, "_output") && it.CallID != "" || strings.HasSuffix(it.Type, "_call_output")
}

// isKnownOutput reports whether an output is of a tool that Codex runs after the response.
func (it *codexItem) isKnownOutput() bool {
	switch it.Type {
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output":
		return true
	}
	return false
}

// isSummary reports whether an item is a summary that the provider made.
func (it *codexItem) isSummary() bool {
	return it.Type == "compaction" || it.Type == "compaction_summary" || it.Type == "context_compaction"
}

// isPrompt reports whether a rollback counts a message: it is a person's or another agent's.
func (it *codexItem) isPrompt() bool {
	return it.Type == "agent_message" || it.Role == "user" && !it.isPrograms()
}

// isPrograms reports whether a program wrote a message that has the role of the user: another
// agent, or Codex. All texts of such a message of Codex are.
func (it *codexItem) isPrograms() bool {
	if it.Type == "agent_message" {
		return true
	}
	if it.Role != "user" {
		return false
	}
	if s, ok := turns.Raw(it.Content).Text(); ok {
		return isCodexText(s)
	}
	var list []codexText
	if it.Content.Kind() != '[' || values.Decode(it.Content, &list) != nil || len(list) == 0 {
		return false
	}
	return !slices.ContainsFunc(list, func(t codexText) bool { return !strings.HasSuffix(t.Type, "text") || !isCodexText(t.Text) })
}

// codexTexts are the beginnings of what Codex writes in the name of the user, and the ends.
var codexTexts = [][2]string{
	{"# AGENTS.md instructions", ""},
	{"<INSTRUCTIONS>", "</INSTRUCTIONS>"},
	{"<user_instructions>", "</user_instructions>"},
	{"<environment_context>", "</environment_context>"},
	{"<skill>", "</skill>"},
	{"<user_shell_command>", "</user_shell_command>"},
	{"<user_action>", "</user_action>"},
	{"<turn_aborted>", "</turn_aborted>"},
	{"<subagent_notification>", "</subagent_notification>"},
	{"<agent_message_board_notification>", "</agent_message_board_notification>"},
	{"<codex_internal_context", "</codex_internal_context>"},
	{"<goal_context>", "</goal_context>"},
	{"<recommended_plugins>", "</recommended_plugins>"},
	{"<hook_prompt", "</hook_prompt>"},
	{"<permissions instructions>", "</permissions instructions>"},
	{"<collaboration_mode>", "</collaboration_mode>"},
	{"<model_switch>", "</model_switch>"},
	{"<external_", ">"},
	{"Warning: The maximum number of unified exec processes", ""},
	{"Warning: apply_patch was requested via ", ""},
	{"Warning: Your account was flagged for ", ""},
	{"Another language model started to solve this problem and produced a summary", ""},
}

func isCodexText(s string) bool {
	s = strings.TrimSpace(s)
	return slices.ContainsFunc(codexTexts, func(t [2]string) bool { return strings.HasPrefix(s, t[0]) && strings.HasSuffix(s, t[1]) })
}

// providersOwn returns the part of an item that the provider alone understands.
func providersOwn(it *codexItem, raw jsontext.Value) turns.Part {
	return turns.Part{Type: turns.Reasoning, Content: strings.Join(append([]string{"[" + it.Type + "]"}, it.asked()...), " "), Ext: values.ProviderExt("openai", "item", turns.Raw(raw))}
}

// asked returns what the model asked a tool of the provider for, so that a search finds it.
func (it *codexItem) asked() (out []string) {
	var a struct {
		Query   turns.Raw   `json:"query"`
		Queries []turns.Raw `json:"queries"`
		URL     turns.Raw   `json:"url"`
		Pattern turns.Raw   `json:"pattern"`
	}
	if it.Action.Kind() == '{' {
		_ = values.Decode(it.Action, &a) // a member of another form asks for nothing that is text
	}
	for _, raw := range slices.Concat([]turns.Raw{turns.Raw(it.Prompt), turns.Raw(it.Revised), a.Query}, a.Queries, []turns.Raw{a.URL, a.Pattern}) {
		if s, ok := raw.Text(); ok && s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// message returns the message of an item. ok is false if the item is none.
func (c *codexReader) message(line int, it *codexItem) (m turns.Message, ok bool) {
	switch {
	case it.Type == "agent_message":
		m.Role = turns.User
	case it.Type != "message":
		return m, false
	case it.Role == "user":
		m.Role = turns.User
	case it.Role == "developer" || it.Role == "system":
		m.Role = turns.System
	case it.Role == "assistant":
		m.Role = turns.Assistant
	default:
		c.Loss.Add(line, "repaired", "a message of role "+strconv.Quote(it.Role)+" is kept as the user's", "")
		m.Role = turns.User
	}
	m.Parts = codexParts(it.Content, &c.Loss, line)
	var ext turns.Raw
	switch {
	case it.Type == "agent_message":
		ext = values.Encoded(map[string]map[string]map[string]string{"openai": {"agent_message": {"author": it.Author, "recipient": it.Recipient}}})
	case it.Phase != "":
		ext = values.ProviderExt("openai", "phase", turns.RawText(it.Phase))
	}
	for i := range m.Parts {
		m.Parts[i].Ext = ext
	}
	return m, true
}

// codexParts returns the parts of a content: a text, or a list of texts and images.
func codexParts(v jsontext.Value, loss *transcript.LossReport, line int) (out []turns.Part) {
	if s, ok := turns.Raw(v).Text(); ok {
		return []turns.Part{turns.TextPart(s)}
	}
	var list []codexText
	if len(v) > 0 && v.Kind() != 'n' && values.Decode(v, &list) != nil {
		loss.Add(line, "repaired", "content of no known form is kept as its JSON", "")
		return []turns.Part{turns.TextPart(string(v))}
	}
	for _, t := range list {
		switch {
		case t.Type == "input_image" && t.Image != "":
			out = append(out, plain.Image(t.Image))
		case strings.HasSuffix(t.Type, "text"):
			out = append(out, turns.TextPart(t.Text))
		default:
			loss.Add(line, "skipped", "content of type "+strconv.Quote(t.Type), "")
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
	if it.Content.Kind() == '[' && values.Decode(it.Content, &content) == nil {
		for _, s := range content {
			text = append(text, s.Text)
		}
	}
	if len(text) == 0 && it.Encrypted == "" {
		c.Loss.Count("skipped", "reasoning items that hold nothing")
		return
	}
	c.response.Parts = append(c.response.Parts, turns.Part{Type: turns.Reasoning, Content: strings.Join(text, "\n"), Ext: values.ProviderExt("openai", "item", turns.Raw(raw))})
}

// call reads a call that needs an answer. The input of a custom tool is free text, which
// becomes a JSON string.
func (c *codexReader) call(line int, it *codexItem, raw jsontext.Value) {
	p := turns.Part{Type: turns.ToolCall, ID: c.calls.Add(line, it.CallID, c.response.Calls(nil), &c.Loss), Name: it.Name}
	switch {
	case it.Type == "function_call", it.Type == "tool_search_call":
		p.Arguments = turns.Raw(it.Arguments)
		if s, ok := p.Arguments.Text(); ok {
			p.Arguments = plain.ArgumentsOf(s)
		}
	case it.Type == "custom_tool_call":
		p.Arguments, p.Ext = turns.RawText(it.Input), turns.Raw(`{"openai":{"type":"custom"}}`)
	case it.Action.Kind() == '{':
		p.Arguments = turns.Raw(it.Action)
	default: // of a type that is not known: what the item says
		var members map[string]turns.Raw
		if values.Decode(raw, &members) == nil {
			for _, k := range []string{"type", "id", "call_id", "name", "status", "internal_chat_message_metadata_passthrough"} {
				delete(members, k)
			}
			p.Arguments = turns.Raw(values.Encoded(members))
		}
	}
	p.Arguments = values.ArgumentsOrEmpty(p.Arguments)
	if p.Name == "" {
		p.Name = strings.TrimSuffix(it.Type, "_call")
	}
	p.Name = c.Loss.ToolName(line, p.Name, it.CallID)
	c.response.Parts = append(c.response.Parts, p)
}

// output returns the result of a call. A result whose call is not in the file becomes
// user text.
func (c *codexReader) output(line int, it *codexItem) turns.Message {
	response := turns.Raw(it.Output)
	if it.Output.Kind() == '[' {
		if r, err := plain.ResultOf(codexParts(it.Output, &c.Loss, line)); err == nil {
			response = r
		}
	}
	if response == nil {
		response = turns.RawText("")
	}
	id, ok := c.calls.AnsweredBy(it.CallID)
	if !ok {
		c.Loss.Add(line, "repaired", "a tool result is kept as text: its call is not in the file", it.CallID)
		return turns.TextMessage(turns.User, values.OrphanText(it.CallID)+"\n"+values.Text(response))
	}
	return turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: response}}}
}
