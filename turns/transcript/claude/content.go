package claude

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// claudeExt returns the Ext of a part: what only Anthropic may see, and the members of
// the source that a part has no field for.
func claudeExt(anthropic, rest values.Object) turns.Raw {
	var o values.Object
	if len(anthropic) > 0 {
		o = append(o, values.Member{Name: "anthropic", Value: anthropic.Raw()})
	}
	if len(rest) > 0 {
		o = append(o, values.Member{Name: "claude-code", Value: rest.Raw()})
	}
	if o == nil {
		return nil
	}
	return o.Raw()
}

// claudePart returns the part for one content block of a message of a role. A block
// without a counterpart becomes a text part with the whole block in Ext; repaired then
// says why.
func claudePart(role turns.Role, block turns.Raw) (p turns.Part, repaired string) {
	p, repaired = blockPart(block)
	if repaired == "" && (p.Type == turns.ToolCall) && role != turns.Assistant {
		repaired = "a tool call outside an assistant message"
	}
	if repaired == "" {
		m := turns.Message{Role: role, Parts: []turns.Part{p}}
		if err := m.Validate(""); err != nil {
			repaired = fmt.Sprintf("a %s that the ledger can't hold as one: %v", p.Type, err)
		}
	}
	if repaired == "" {
		return p, ""
	}
	return opaqueBlock(block), repaired
}

// opaqueBlock returns a text part in place of a block of another kind.
func opaqueBlock(block turns.Raw) turns.Part {
	typ := values.Members(block).Text("type")
	if typ == "" {
		typ = "unnamed"
	}
	typ = strings.ToValidUTF8(values.Clipped(typ, 80), "")
	p := turns.Part{Type: turns.Text, Content: "[claude-code: " + typ + " block]"}
	p.Ext = claudeExt(nil, values.Object{{Name: "block", Value: block}})
	m := turns.Message{Role: turns.User, Parts: []turns.Part{p}}
	if m.Validate("") != nil { // nested too deep to be JSON here: as text then
		p.Ext, p.Content = nil, p.Content+"\n"+strings.ToValidUTF8(string(block), "\uFFFD")
	}
	return p
}

func blockPart(block turns.Raw) (turns.Part, string) {
	if block.Kind() == '"' {
		return turns.TextPart(values.String(block)), ""
	}
	o := values.Members(block)
	typ := o.Text("type")
	var p turns.Part
	switch typ {
	case "text":
		if o.Get("text").Kind() != '"' {
			return p, "a text block without text"
		}
		p = turns.TextPart(o.Text("text"))
		p.Ext = claudeExt(nil, o.Without("type", "text"))
	case "thinking":
		p = turns.Part{Type: turns.Reasoning, Content: o.Text("thinking")}
		var sig values.Object
		if s := o.Get("signature"); s != nil {
			sig = values.Object{{Name: "signature", Value: s}}
		}
		p.Ext = claudeExt(sig, o.Without("type", "thinking", "signature"))
	case "redacted_thinking":
		p = turns.Part{Type: turns.Reasoning}
		if o.Get("data") == nil {
			return p, "a redacted_thinking block without data"
		}
		p.Ext = claudeExt(values.Object{{Name: "data", Value: o.Get("data")}}, o.Without("type", "data"))
	case "tool_use":
		p = turns.Part{Type: turns.ToolCall, ID: o.Text("id"), Name: values.ToolName(o.Text("name")), Arguments: o.Get("input")}
		if p.Arguments == nil {
			p.Arguments = turns.Raw("{}")
		}
		used := []string{"type", "id", "input"}
		if p.Name == o.Text("name") {
			used = append(used, "name")
		}
		p.Ext = claudeExt(nil, o.Without(used...))
	case "tool_result":
		p = turns.Part{Type: turns.ToolCallResponse, ID: o.Text("tool_use_id"), IsError: isTrue(o.Get("is_error"))}
		p.Response = toolResponse(o.Get("content"))
		p.Ext = claudeExt(nil, o.Without("type", "tool_use_id", "content", "is_error"))
	case "image", "document":
		return mediaPart(typ, o)
	default:
		return p, fmt.Sprintf("a block of the type %q", values.Clipped(typ, 80))
	}
	return p, ""
}

// mediaPart returns the part for an image or document block.
func mediaPart(modality string, o values.Object) (turns.Part, string) {
	src := values.Members(o.Get("source"))
	var p turns.Part
	var used []string
	switch kind := src.Text("type"); kind {
	case "base64":
		data, err := base64.StdEncoding.Strict().DecodeString(src.Text("data"))
		if err != nil || bytes.ContainsAny([]byte(src.Text("data")), "\r\n") {
			return p, "an " + modality + " whose data is not base64"
		}
		p = turns.Part{Type: turns.Blob, Modality: modality, MimeType: src.Text("media_type"), Data: data}
		used = []string{"type", "media_type", "data"}
	case "url":
		p = turns.Part{Type: turns.URI, Modality: modality, Content: src.Text("url")}
		used = []string{"type", "url"}
	case "file":
		p = turns.Part{Type: turns.File, Modality: modality, Content: src.Text("file_id")}
		used = []string{"type", "file_id"}
	case "text":
		p = turns.TextPart(src.Text("data"))
		used = []string{"type", "data"}
	default:
		return p, fmt.Sprintf("an %s with a source of the type %q", modality, values.Clipped(kind, 80))
	}
	rest := o.Without("type", "source")
	if left := src.Without(used...); len(left) > 0 {
		rest = append(rest, values.Member{Name: "source", Value: left.Raw()})
	}
	p.Ext = claudeExt(nil, rest)
	return p, ""
}

// toolResponse returns the response of a tool result: a string unchanged, a list as the
// list of its parts, and an empty string for no content.
func toolResponse(content turns.Raw) turns.Raw {
	switch content.Kind() {
	case 0, 'n':
		return turns.Raw(`""`)
	case '[':
	default:
		return content
	}
	var blocks []turns.Raw
	if err := json.Unmarshal(content, &blocks); err != nil {
		return content
	}
	parts := make([]turns.Part, len(blocks))
	for i, b := range blocks {
		parts[i], _ = claudePart(turns.User, b)
	}
	b, err := turns.EncodeJSON(turns.Message{Role: turns.Tool, Parts: parts})
	if err != nil {
		return content
	}
	return values.Members(b).Get("parts")
}

// unknownBlocks returns the number of blocks in a tool result without a counterpart.
func unknownBlocks(result turns.Raw) (n int) {
	content := values.Members(result).Get("content")
	var blocks []turns.Raw
	if content.Kind() != '[' || json.Unmarshal(content, &blocks) != nil {
		return 0
	}
	for _, b := range blocks {
		if _, repaired := claudePart(turns.User, b); repaired != "" {
			n++
		}
	}
	return n
}

// claudeUsageOf reads the provider's usage, in tokens. Anthropic's input_tokens is
// without the cache, ours with it. It returns nil for a usage of 0, which lines have that
// Claude Code made itself.
func claudeUsageOf(r turns.Raw) *turns.Usage {
	o := values.Members(r)
	n := func(name string) uint64 {
		var v uint64
		if json.Unmarshal(o.Get(name), &v) != nil {
			return 0
		}
		return v
	}
	u := turns.Usage{CacheRead: n("cache_read_input_tokens"), CacheCreation: n("cache_creation_input_tokens"), OutputTokens: n("output_tokens")}
	u.InputTokens = n("input_tokens")
	for _, c := range []uint64{u.CacheRead, u.CacheCreation} {
		u.InputTokens += min(c, math.MaxUint64-u.InputTokens)
	}
	if u == (turns.Usage{}) {
		return nil
	}
	return &u
}

// claudeUsageDetailsOf reads what the provider counts beyond [claudeUsageOf].
func claudeUsageDetailsOf(r turns.Raw) (d turns.UsageDetails) {
	var u struct {
		Tier     turns.Raw `json:"service_tier"`
		Creation turns.Raw `json:"cache_creation"`
		Output   turns.Raw `json:"output_tokens_details"`
		Server   turns.Raw `json:"server_tool_use"`
		Speed    turns.Raw `json:"speed"` // standard; fast costs several times as much
		Geo      turns.Raw `json:"inference_geo"`
	}
	if json.Unmarshal(r, &u) != nil {
		return d
	}
	count := func(object turns.Raw, name string) (n uint64) {
		if object.Kind() != '{' || json.Unmarshal(values.Members(object).Get(name), &n) != nil {
			return 0
		}
		return n
	}
	d.CacheHour = count(u.Creation, "ephemeral_1h_input_tokens")
	d.Reasoning = count(u.Output, "thinking_tokens")
	d.WebSearches = count(u.Server, "web_search_requests")
	if d.Tier = machineWord(values.String(u.Tier)); d.Tier == "standard" {
		d.Tier = ""
	}
	switch geo := machineWord(values.Clipped(values.String(u.Geo), 40)); geo {
	case "not_available", "global":
	default:
		d.Geo = geo
	}
	if speed := machineWord(values.String(u.Speed)); d.Tier == "" && speed != "standard" {
		d.Tier = speed
	}
	return d
}

// machineWord returns s if it is valid as a finish reason or model name, else "".
func machineWord(s string) string {
	m := turns.Message{Role: turns.Assistant, FinishReason: s}
	if m.Validate("") != nil {
		return ""
	}
	return s
}

// setUsage sets the usage of the call behind a response, and of the calls besides it, as a
// line of the response has them. A later line has the later count; one with less output
// repeats that of the stream's begin.
//
// Where the provider took several steps, what the turn has is the last one, which tells
// the size of the context. The others, and those of other models, are further calls.
func (b *claudeBody) setUsage(raw turns.Raw) {
	u := claudeUsageOf(raw)
	if u == nil || b.usage != nil && u.InputTokens == b.total.InputTokens && u.OutputTokens < b.total.OutputTokens {
		return
	}
	b.usage, b.total, b.meta.Usage, b.calls = u, *u, claudeUsageDetailsOf(raw), nil
	var steps []turns.Raw
	if json.Unmarshal(values.Members(raw).Get("iterations"), &steps) != nil {
		return
	}
	var last *turns.Usage
	var lastHour uint64
	own := 0
	for _, step := range steps {
		o, s := values.Members(step), claudeUsageOf(step)
		if o == nil || s == nil {
			continue
		}
		hour := claudeUsageDetailsOf(step).CacheHour
		switch kind := o.Text("type"); kind {
		case "", "message", "iteration":
			last, lastHour = s, hour
			own++
		default:
			b.calls = append(b.calls, turns.ModelCall{Kind: machineWord(values.Clipped(kind, 80)), Model: machineWord(o.Text("model")), Usage: *s, CacheHour: hour})
		}
	}
	if own < 2 || last.InputTokens > u.InputTokens {
		return
	}
	rest := turns.Usage{
		InputTokens: u.InputTokens - last.InputTokens, OutputTokens: u.OutputTokens - min(last.OutputTokens, u.OutputTokens),
		CacheRead: u.CacheRead - min(last.CacheRead, u.CacheRead), CacheCreation: u.CacheCreation - min(last.CacheCreation, u.CacheCreation),
	}
	if rest == (turns.Usage{}) {
		return
	}
	hours := b.meta.Usage.CacheHour
	b.meta.Usage.CacheHour = min(lastHour, hours)
	b.calls = slices.Insert(b.calls, 0, turns.ModelCall{Kind: "message", Usage: rest, CacheHour: hours - min(lastHour, hours)})
	b.usage = last
}
