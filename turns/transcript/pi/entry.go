package pi

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/plain"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// piEntry is one line of a pi session, of whatever type.
type piEntry struct {
	Type    string         `json:"type"`
	ID      string         `json:"id"`
	Parent  string         `json:"parentId"`
	Time    string         `json:"timestamp"`
	Message jsontext.Value `json:"message"`

	Content      jsontext.Value `json:"content"` // custom_message
	Summary      string         `json:"summary"`
	FirstKept    *int           `json:"firstKeptEntryIndex"`
	FirstKeptID  string         `json:"firstKeptEntryId"`
	TokensBefore uint64         `json:"tokensBefore"`
	Details      jsontext.Value `json:"details"`
	Usage        *piUsage       `json:"usage"`         // of a compaction, a branch summary or a call outside the conversation
	System       jsontext.Value `json:"systemMessage"` // after a compaction
	Target       string         `json:"targetId"`      // of an edit

	Cwd           string `json:"cwd"`
	Model         string `json:"modelId"`
	Level         string `json:"thinkingLevel"`
	BranchedFrom  string `json:"branchedFrom"`
	ParentSession string `json:"parentSession"`

	Name turns.Raw      `json:"name"`  // session_info
	Mark jsontext.Value `json:"nexus"` // of the header; see exportMark

	idReused   bool   // another entry has this id
	digest     string // of the line
	occurrence int    // among the lines with the same bytes, for an entry without an id
}

// record returns the entry's id. It is derived from the entry's bytes if the format has no
// ids, and from both if another entry has the same id.
func (e *piEntry) record() string {
	switch {
	case e.idReused:
		return e.ID + " " + e.digest
	case e.ID != "":
		return e.ID
	case e.occurrence > 1:
		return e.digest + " " + strconv.Itoa(e.occurrence)
	}
	return e.digest
}

// time returns the entry's time, else that of its message; zero if neither states one.
func (e *piEntry) time() time.Time {
	if t := values.ParseTime(turns.RawText(e.Time)); !t.IsZero() {
		return t
	}
	var m struct {
		Time turns.Raw `json:"timestamp"` // ms
	}
	if e.Message.Kind() != '{' || values.Decode(e.Message, &m) != nil {
		return time.Time{}
	}
	if t := values.ParseTime(m.Time); t.Year() > 2000 {
		return t
	}
	return time.Time{}
}

type piMessage struct {
	Role     string         `json:"role"`
	Content  jsontext.Value `json:"content"`
	API      string         `json:"api"`
	Provider string         `json:"provider"`
	Model    string         `json:"model"`
	Usage    *piUsage       `json:"usage"`
	Stop     string         `json:"stopReason"`
	Error    string         `json:"errorMessage"`

	CallID  string         `json:"toolCallId"`
	Tool    string         `json:"toolName"`
	IsError bool           `json:"isError"`
	Details jsontext.Value `json:"details"`

	Command   string `json:"command"`
	Output    string `json:"output"`
	ExitCode  *int   `json:"exitCode"`
	Cancelled bool   `json:"cancelled"`
	Truncated bool   `json:"truncated"`
	Excluded  bool   `json:"excludeFromContext"`

	ResponseID string `json:"responseId"`
}

type piUsage struct {
	Input      uint64         `json:"input"` // without the cache
	Output     uint64         `json:"output"`
	CacheRead  uint64         `json:"cacheRead"`
	CacheWrite uint64         `json:"cacheWrite"`
	Cost       jsontext.Value `json:"cost"`
}

// isUnknownPiCost reports that a cost is what [writtenPiCost] writes for none.
func isUnknownPiCost(v jsontext.Value) bool {
	var c struct {
		Unknown jsontext.Value `json:"unknown"`
	}
	return v.Kind() == '{' && json.Unmarshal(v, &c) == nil && c.Unknown.Kind() == 't'
}

// provider returns the provider whose signatures the message holds, by its API; the name
// of an unknown API.
func (m *piMessage) provider() string {
	switch {
	case strings.HasPrefix(m.API, "anthropic"):
		return "anthropic"
	case strings.HasPrefix(m.API, "google"):
		return "gemini"
	case m.API == "" || strings.Contains(m.API, "openai"):
		return "openai"
	}
	return m.API
}

// ext returns an Ext with a signature, verbatim, for its provider; nil if there is none.
// All signatures of Gemini have the same name.
func (m *piMessage) ext(member string, v jsontext.Value) turns.Raw {
	provider := m.provider()
	if provider == "gemini" {
		member = "thoughtSignature"
	}
	return values.ProviderExt(provider, member, turns.Raw(v))
}

// counts returns the usage; nil if there is none.
func (u *piUsage) counts() *turns.Usage {
	if u == nil || u.Input+u.Output+u.CacheRead+u.CacheWrite == 0 {
		return nil
	}
	return &turns.Usage{InputTokens: u.Input + u.CacheRead + u.CacheWrite, OutputTokens: u.Output, CacheRead: u.CacheRead, CacheCreation: u.CacheWrite}
}

// bash returns a command that the user ran, as text.
func (m *piMessage) bash() string {
	s := "[the user ran a command]\n$ " + m.Command + "\n" + m.Output
	switch {
	case m.Cancelled:
		s += "\n[cancelled]"
	case m.ExitCode != nil:
		s += fmt.Sprintf("\n[exit status %d]", *m.ExitCode)
	}
	if m.Truncated {
		s += "\n[the output was cut]"
	}
	return s
}

// piMeta is the meta object of a step.
type piMeta struct {
	Source       string    `json:"source,omitzero"`
	Session      string    `json:"session_id,omitzero"`
	Cwd          string    `json:"cwd,omitzero"`
	BranchedFrom string    `json:"branched_from,omitzero"`
	Messages     []string  `json:"messages,omitempty"` // records in the messages half
	Record       string    `json:"record,omitzero"`    // of the response or compaction
	Provider     string    `json:"provider,omitzero"`
	Level        string    `json:"thinking_level,omitzero"`
	Error        string    `json:"error,omitzero"`
	Response     string    `json:"response_id,omitzero"`
	Cost         turns.Raw `json:"cost,omitzero"`
	Details      turns.Raw `json:"details,omitzero"`
	StandIn      bool      `json:"stand_in,omitzero"` // the session's own file was not read
}

func (m piMeta) raw() turns.Raw {
	return values.Encoded(m)
}

type piBlock struct {
	Type      string         `json:"type"`
	Text      string         `json:"text"`
	Data      string         `json:"data"`
	MimeType  string         `json:"mimeType"`
	Thinking  string         `json:"thinking"`
	Signature jsontext.Value `json:"thinkingSignature"`
	Redacted  bool           `json:"redacted"`
	OfText    jsontext.Value `json:"textSignature"`
	OfThought jsontext.Value `json:"thoughtSignature"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

// piBlocks returns the blocks of a content: a text, or a list of blocks.
func piBlocks(v jsontext.Value) (out []piBlock, ok bool) {
	if s, isText := turns.Raw(v).Text(); isText {
		return []piBlock{{Type: "text", Text: s}}, true
	}
	return out, len(v) == 0 || v.Kind() == 'n' || values.Decode(v, &out) == nil
}

// piParts returns the texts and images of a content.
func piParts(v jsontext.Value, loss *transcript.LossReport, line int) (out []turns.Part) {
	blocks, ok := piBlocks(v)
	if !ok {
		loss.Add(line, "repaired", "content of no known form is kept as its JSON", "")
		return []turns.Part{turns.TextPart(string(v))}
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			out = append(out, turns.TextPart(b.Text))
		case "image":
			data, err := base64.StdEncoding.DecodeString(b.Data)
			if err != nil {
				loss.Add(line, "skipped", "an image that is not base64", "")
				continue
			}
			out = append(out, turns.Part{Type: turns.Blob, Modality: "image", MimeType: b.MimeType, Data: data})
		default:
			loss.Add(line, "skipped", "content of type "+strconv.Quote(b.Type), "")
		}
	}
	return out
}

// response returns the assistant's message. Signed reasoning keeps its signature for the
// provider that made it.
func (p *piReader) response(line int, m *piMessage) turns.Message {
	out := turns.Message{Role: turns.Assistant, FinishReason: piFinish(m.Stop)}
	blocks, ok := piBlocks(m.Content)
	if !ok {
		p.Loss.Add(line, "repaired", "content of no known form is kept as its JSON", "")
		blocks = []piBlock{{Type: "text", Text: string(m.Content)}}
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			out.Parts = append(out.Parts, turns.Part{Type: turns.Text, Content: b.Text, Ext: m.ext("textSignature", b.OfText)})
		case "thinking":
			member, v := "thinkingSignature", turns.Raw(b.Signature)
			switch provider := m.provider(); {
			case provider == "anthropic" && b.Redacted:
				member = "data"
			case provider == "anthropic":
				member = "signature"
			case provider == "openai": // what the Responses API signed is an item, written as text
				if item := values.Unquoted(v); item.Kind() == '{' {
					member, v = "item", item
				}
			}
			out.Parts = append(out.Parts, turns.Part{Type: turns.Reasoning, Content: b.Thinking, Ext: m.ext(member, jsontext.Value(v))})
		case "toolCall":
			id := p.calls.Add(line, b.ID, out.Calls(nil), &p.Loss)
			out.Parts = append(out.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: p.Loss.ToolName(line, b.Name, b.ID), Arguments: values.ArgumentsOrEmpty(turns.Raw(b.Arguments)), Ext: m.ext("thoughtSignature", b.OfThought)})
		default:
			p.Loss.Add(line, "skipped", "content of type "+strconv.Quote(b.Type), "")
		}
	}
	return out
}

// piFinish returns a stop reason in the words of OpenTelemetry.
func piFinish(s string) string {
	if s == "toolUse" {
		return "tool_call"
	}
	return s
}

// result returns the result of a tool. A result whose call is not in the file becomes
// user text.
func (p *piReader) result(line int, m *piMessage) turns.Message {
	if len(m.Details) > 0 && m.Details.Kind() != 'n' {
		p.Loss.Count("skipped", "details of tool results, which the model does not see; the results are stored")
	}
	parts := piParts(m.Content, &p.Loss, line)
	id, ok := p.calls.AnsweredBy(m.CallID)
	if !ok {
		p.Loss.Add(line, "repaired", "a tool result is kept as text: its call is not in the file", m.CallID)
		return turns.Message{Role: turns.User, Parts: append([]turns.Part{turns.TextPart(values.OrphanText(m.CallID))}, parts...)}
	}
	response, err := plain.ResultOf(parts)
	if err != nil {
		response = turns.RawText("")
		p.Loss.Add(line, "skipped", "a tool result that can't be written: "+err.Error(), m.CallID)
	}
	return turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Name: values.ToolName(m.Tool), Response: response, IsError: m.IsError}}}
}
