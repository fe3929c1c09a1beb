package codex

import (
	"slices"
	"strings"
	"time"

	"nexus/turns"
	"nexus/turns/internal/plain"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// codexWriter writes rollouts of Codex.
type codexWriter struct {
	s         transcript.WrittenSession
	now       time.Time // of the last turn, or of the session before the first
	begun     bool
	model     string
	total     turns.Usage
	reasoning uint64          // tokens, in total
	custom    map[string]bool // calls whose input is free text
}

type codexLine struct {
	Time    string `json:"timestamp"`
	Type    string `json:"type"`
	Payload any    `json:"payload"`
}

type codexTitle struct {
	Type   string `json:"type"`
	Thread string `json:"thread_id"`
	Name   string `json:"thread_name"`
}

type codexHead struct {
	ID         string    `json:"id"`
	Time       string    `json:"timestamp"`
	Cwd        string    `json:"cwd"`
	Originator string    `json:"originator"`
	Version    string    `json:"cli_version"`
	Source     string    `json:"source"`
	Provider   string    `json:"model_provider"`
	Git        *codexGit `json:"git,omitzero"`

	Mark *transcript.ExportMark `json:"nexus,omitzero"`
}

type codexGit struct {
	Commit string `json:"commit_hash,omitzero"`
	Branch string `json:"branch,omitzero"`
}

type codexSettings struct {
	Cwd      string            `json:"cwd"`
	Approval string            `json:"approval_policy"`
	Sandbox  map[string]string `json:"sandbox_policy"`
	Model    string            `json:"model"`
	Summary  string            `json:"summary"`
}

type codexEventOut struct {
	Type    string          `json:"type"`
	Message *string         `json:"message,omitzero"`
	Text    *string         `json:"text,omitzero"`
	Info    *codexUsageInfo `json:"info,omitzero"`
}

type codexUsageInfo struct {
	Total codexUsageOut `json:"total_token_usage"`
	Last  codexUsageOut `json:"last_token_usage"`
}

type codexUsageOut struct {
	Input     uint64 `json:"input_tokens"`
	Cached    uint64 `json:"cached_input_tokens"`
	Output    uint64 `json:"output_tokens"`
	Reasoning uint64 `json:"reasoning_output_tokens"`
	Total     uint64 `json:"total_tokens"`
}

type codexItemOut struct {
	Type      string          `json:"type"`
	Role      string          `json:"role,omitzero"`
	Content   *[]codexContent `json:"content,omitzero"`
	Phase     string          `json:"phase,omitzero"`
	Name      string          `json:"name,omitzero"`
	Arguments *string         `json:"arguments,omitzero"`
	Input     *string         `json:"input,omitzero"`
	CallID    string          `json:"call_id,omitzero"`
	Output    any             `json:"output,omitzero"`
	Summary   *[]codexContent `json:"summary,omitzero"`
	Message   *string         `json:"message,omitzero"`
	History   *[]codexItemOut `json:"replacement_history,omitzero"`
}

type codexContent struct {
	Type  string  `json:"type"`
	Text  *string `json:"text,omitzero"`
	Image string  `json:"image_url,omitzero"`
}

// Turn implements [transcript.Writer].
func (w *codexWriter) Turn(t transcript.WrittenTurn) ([][]byte, error) {
	w.now = t.Time
	at := values.LineTime(t.Time)
	out := w.head()
	line := func(kind string, payload any) { out = append(out, codexLine{at, kind, payload}) }
	item := func(it codexItemOut) { line("response_item", it) }
	if t.Compaction {
		text := t.Summary
		history := []codexItemOut{w.message("user", []turns.Part{turns.TextPart(text)})}
		if w.s.Resumed {
			history = append(history, w.history(t.Kept)...)
		}
		line("compacted", codexItemOut{Message: &text, History: &history})
		return transcript.EncodedLines(t.ID, out)
	}
	if t.Model != "" && t.Model != w.model {
		w.model = t.Model
		line("turn_context", codexSettings{Cwd: w.s.Cwd, Approval: "on-request", Sandbox: map[string]string{"type": "read-only"}, Model: t.Model, Summary: "auto"})
	}
	for i := range t.Messages {
		m := &t.Messages[i]
		for _, it := range w.messageItems(m) {
			item(it)
		}
		if m.Role == turns.User {
			if text := textsOf(m); text != "" {
				line("event_msg", codexEventOut{Type: "user_message", Message: &text})
			}
		}
	}
	if t.Response != nil {
		// An answer without items is no answer to Codex, and what is said before and after it
		// one message half. An agent that goes on gets none: a provider may refuse it.
		if len(t.Response.Parts) == 0 && !w.s.Resumed {
			empty := turns.TextPart("")
			item(w.responseItem(&empty))
		}
		for i := range t.Response.Parts {
			p := &t.Response.Parts[i]
			if p.Type == turns.Reasoning {
				raw, ok := codexOwn(p)
				switch {
				case ok:
					line("response_item", raw)
				case w.s.Resumed:
					line("event_msg", codexEventOut{Type: "agent_reasoning", Text: &p.Content})
				default:
					item(codexItemOut{Type: "reasoning", Summary: &[]codexContent{{Type: "summary_text", Text: &p.Content}}})
				}
				continue
			}
			item(w.responseItem(p))
			if p.Type == turns.Text && p.Ref == nil {
				line("event_msg", codexEventOut{Type: "agent_message", Message: &p.Content})
			}
		}
	}
	if u := t.Usage; u != nil {
		w.total, w.reasoning = w.total.Plus(*u), w.reasoning+t.Details.Reasoning
		count := func(u turns.Usage, reasoning uint64) codexUsageOut {
			return codexUsageOut{Input: u.InputTokens, Cached: u.CacheRead, Output: u.OutputTokens, Reasoning: reasoning, Total: u.InputTokens + u.OutputTokens}
		}
		line("event_msg", codexEventOut{Type: "token_count", Info: &codexUsageInfo{count(w.total, w.reasoning), count(*u, t.Details.Reasoning)}})
	}
	return transcript.EncodedLines(t.ID, out)
}

// End implements [transcript.Writer].
func (w *codexWriter) End() ([][]byte, error) {
	out := w.head()
	if w.s.Title != "" {
		out = append(out, codexLine{values.LineTime(w.now), "event_msg", codexTitle{"thread_name_updated", w.s.TranscriptID(), w.s.Title}})
	}
	return transcript.EncodedLines(turns.ID{}, out)
}

// head returns the first line, nothing if it was written.
func (w *codexWriter) head() []any {
	if w.begun {
		return nil
	}
	w.begun = true
	h := codexHead{ID: w.s.TranscriptID(), Time: values.LineTime(w.s.Time), Cwd: w.s.Cwd, Originator: transcript.WriterName, Version: "0.0.0", Source: "cli", Provider: "openai", Mark: w.s.Mark()}
	if w.s.Branch != "" || w.s.Commit != "" {
		h.Git = &codexGit{w.s.Commit, w.s.Branch}
	}
	return []any{codexLine{values.LineTime(w.s.Time), "session_meta", h}}
}

// codexOwn returns an item that OpenAI's provider made, as it stood.
func codexOwn(p *turns.Part) (turns.Raw, bool) {
	var ext struct {
		Item turns.Raw `json:"item"`
	}
	if !plain.Ext(p, "openai", &ext) || ext.Item.Kind() != '{' {
		return nil, false
	}
	return ext.Item, true
}

// messageItems returns the items of a message to the model.
func (w *codexWriter) messageItems(m *turns.Message) (out []codexItemOut) {
	role := "user"
	if m.Role == turns.System {
		role = "developer"
	}
	var parts []turns.Part
	flush := func() {
		if len(parts) > 0 {
			out, parts = append(out, w.message(role, parts)), nil
		}
	}
	for _, p := range m.Parts {
		if p.Type != turns.ToolCallResponse {
			parts = append(parts, p)
			continue
		}
		flush()
		kind := "function_call_output"
		if w.custom[p.ID] {
			kind = "custom_tool_call_output"
		}
		text, pictures := plain.Result(&p)
		var output any = text
		if len(pictures) > 0 {
			list := append([]turns.Part{}, plain.ResultParts(&p)...)
			output = codexContents(list, "input_text")
		}
		out = append(out, codexItemOut{Type: kind, CallID: p.ID, Output: output})
	}
	flush()
	return out
}

// message is a message item.
func (w *codexWriter) message(role string, parts []turns.Part) codexItemOut {
	content := codexContents(parts, "input_text")
	return codexItemOut{Type: "message", Role: role, Content: &content}
}

func codexContents(parts []turns.Part, kind string) []codexContent {
	out := []codexContent{}
	for i := range parts {
		p := &parts[i]
		if pic, ok := plain.PictureOf(p); ok {
			url := pic.URL
			if pic.Base64 != "" {
				url = "data:" + pic.MIME + ";base64," + pic.Base64
			}
			out = append(out, codexContent{Type: "input_image", Image: url})
			continue
		}
		text := plain.Text(p)
		out = append(out, codexContent{Type: kind, Text: &text})
	}
	return out
}

// responseItem is a text or call of the model.
func (w *codexWriter) responseItem(p *turns.Part) codexItemOut {
	var ext struct {
		Type  string `json:"type"`
		Phase string `json:"phase"`
	}
	_ = plain.Ext(p, "openai", &ext)
	if p.Type != turns.ToolCall {
		content := codexContents([]turns.Part{*p}, "output_text")
		return codexItemOut{Type: "message", Role: "assistant", Content: &content, Phase: ext.Phase}
	}
	name := p.Name
	if w.s.Resumed {
		name = plain.ToolName(name, 64)
	}
	if s, ok := p.Arguments.Text(); ok && ext.Type == "custom" {
		if w.custom == nil {
			w.custom = make(map[string]bool)
		}
		w.custom[p.ID] = true
		return codexItemOut{Type: "custom_tool_call", Name: name, CallID: p.ID, Input: &s}
	}
	delete(w.custom, p.ID)
	args := string(plain.Arguments(p))
	if args == "" {
		args = "{}"
	}
	return codexItemOut{Type: "function_call", Name: name, Arguments: &args, CallID: p.ID}
}

// history returns messages that a compaction kept as items, without reasoning. A result
// whose call was not kept is a text: OpenAI takes no result without its call.
func (w *codexWriter) history(kept []turns.Message) (out []codexItemOut) {
	calls := make(map[string]bool)
	for i := range kept {
		m := kept[i]
		if m.Role != turns.Assistant {
			m.Parts = slices.Clone(m.Parts)
			for j := range m.Parts {
				if p := &m.Parts[j]; p.Type == turns.ToolCallResponse && !calls[p.ID] {
					m.Parts[j] = turns.TextPart(values.OrphanText(p.ID) + "\n" + plain.ResultText(p))
				}
			}
			out = append(out, w.messageItems(&m)...)
			continue
		}
		for _, id := range m.Calls(nil) {
			calls[id] = true
		}
		for j := range m.Parts {
			if m.Parts[j].Type != turns.Reasoning {
				out = append(out, w.responseItem(&m.Parts[j]))
			}
		}
	}
	return out
}

// textsOf returns the texts of a message, a line each.
func textsOf(m *turns.Message) string {
	var out []string
	for i := range m.Parts {
		if m.Parts[i].Type == turns.Text {
			out = append(out, plain.Text(&m.Parts[i]))
		}
	}
	return strings.Join(out, "\n")
}
