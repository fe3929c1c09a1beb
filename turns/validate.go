package turns

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of what one turn may hold. Counts, not bytes, unless said otherwise.
const (
	MaxMessages = 4096 // messages in one turn
	MaxParts    = 4096 // parts in one message
	MaxName     = 512  // bytes of a role-like word: tool name, call id, mime type, model
	MaxLabel    = 256  // bytes
	MaxKeys     = 1024 // content keys of one event
)

// ValidName reports whether s may name a tenant or an agent:
// [a-z0-9][a-z0-9-]{0,63}. The operator's "_" is not one. An append asks it several times.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > 64 || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// ValidateMessages checks the messages half of a turn. Field is the JSON
// pointer of the list, for errors.
func ValidateMessages(field string, ms []Message) error {
	if len(ms) > MaxMessages {
		return tooLarge(field, "%d messages, the limit is %d", len(ms), MaxMessages)
	}
	for i := range ms {
		f := field + "/" + strconv.Itoa(i)
		if err := ms[i].Validate(f); err != nil {
			return err
		}
		if ms[i].FinishReason != "" {
			return malformed(f+"/finish_reason", "only a response has one")
		}
	}
	return nil
}

// ValidateResponse checks the response half: one assistant message.
func ValidateResponse(field string, m *Message) error {
	if m == nil {
		return nil
	}
	if m.Role != Assistant {
		return malformed(field+"/role", "a response's role is assistant, not %q", clip(string(m.Role), 40))
	}
	return m.Validate(field)
}

// Validate checks roles, parts, ids and sizes. Field is the JSON pointer of m,
// for errors, which are [FieldError]s.
func (m *Message) Validate(field string) error {
	switch m.Role {
	case System, User, Assistant, Tool:
	default:
		return malformed(field+"/role", "%q is not one of system, user, assistant, tool", clip(string(m.Role), 40))
	}
	if len(m.Parts) > MaxParts {
		return tooLarge(field+"/parts", "%d parts, the limit is %d", len(m.Parts), MaxParts)
	}
	if err := word(field, "/name", m.Name); err != nil {
		return err
	}
	if err := word(field, "/finish_reason", m.FinishReason); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i := range m.Parts {
		p := &m.Parts[i]
		f := field + "/parts/" + strconv.Itoa(i)
		if err := p.validate(f); err != nil {
			return err
		}
		switch p.Type {
		case ToolCall:
			if m.Role != Assistant {
				return malformed(f+"/type", "a tool call stands in an assistant message, not in a %s one", m.Role)
			}
			if seen[p.ID] {
				return malformed(f+"/id", "two calls with the id %q in one message", clip(p.ID, 80))
			}
			seen[p.ID] = true
		case ToolCallResponse:
			if m.Role != Tool && m.Role != User {
				return malformed(f+"/type", "a tool call response stands in a tool or user message, not in a %s one", m.Role)
			}
			if seen[p.ID] {
				return malformed(f+"/id", "two responses to the call %q in one message", clip(p.ID, 80))
			}
			seen[p.ID] = true
		}
	}
	return nil
}

// known reports whether this build knows the type. A switch, because a decoder asks it for each part.
func (t PartType) known() bool {
	switch t {
	case Text, Reasoning, ToolCall, ToolCallResponse, Blob, URI, File:
		return true
	}
	return false
}

// partFields lists the fields that a part of each type may have, by their JSON names.
var partFields = map[PartType][]string{
	Text:             {"content", "ref"},
	Reasoning:        {"content", "ref"},
	ToolCall:         {"id", "name", "arguments", "ref"},
	ToolCallResponse: {"id", "name", "response", "is_error", "ref"},
	Blob:             {"modality", "mime_type", "data", "ref"},
	URI:              {"modality", "mime_type", "content"},
	File:             {"modality", "mime_type", "content"},
}

func (p *Part) validate(field string) error {
	allowed, ok := partFields[p.Type]
	if !ok {
		return malformed(field+"/type", "%q is not a known type of part", clip(string(p.Type), 40))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"content", p.Content != ""}, {"id", p.ID != ""}, {"name", p.Name != ""}, {"arguments", p.Arguments != nil},
		{"response", p.Response != nil}, {"is_error", p.IsError}, {"modality", p.Modality != ""},
		{"mime_type", p.MimeType != ""}, {"data", p.Data != nil}, {"ref", p.Ref != nil},
	} {
		if f.set && !slices.Contains(allowed, f.name) {
			name := f.name
			if name == "data" {
				name = "content"
			}
			return malformed(field+"/"+name, "a %s part has no such field", p.Type)
		}
	}
	for _, w := range []struct{ name, s string }{{"/id", p.ID}, {"/name", p.Name}, {"/modality", p.Modality}, {"/mime_type", p.MimeType}} {
		if err := word(field, w.name, w.s); err != nil {
			return err
		}
	}
	if !utf8.ValidString(p.Content) {
		return malformed(field+"/content", "not UTF-8")
	}
	if r := p.Ref; r != nil {
		if p.Content != "" || p.Arguments != nil || p.Response != nil || p.Data != nil {
			return malformed(field+"/ref", "stands beside the content that it should stand for")
		}
		if err := r.validate(field + "/ref"); err != nil {
			return err
		}
		if err := word(field, "/ref/mime_type", r.MimeType); err != nil {
			return err
		}
	}
	if p.Ext != nil && p.Ext.Kind() != '{' {
		return malformed(field+"/ext", "not a JSON object")
	}
	for _, r := range []struct {
		name string
		v    Raw
	}{{"arguments", p.Arguments}, {"response", p.Response}, {"ext", p.Ext}} {
		if r.v == nil {
			continue
		}
		if err := checkJSON(r.v); err != nil {
			return malformed(field+"/"+r.name, "not one JSON value")
		}
	}
	switch p.Type {
	case ToolCall:
		if p.ID == "" || p.Name == "" {
			return malformed(field, "a tool call needs an id and a name")
		}
		if p.Arguments == nil && p.Ref == nil {
			return malformed(field+"/arguments", "missing (an empty object will do)")
		}
	case ToolCallResponse:
		if p.ID == "" {
			return malformed(field+"/id", "missing")
		}
		if p.Response == nil && p.Ref == nil {
			return malformed(field+"/response", "missing (an empty string will do)")
		}
	case URI, File:
		if p.Content == "" {
			return malformed(field+"/content", "missing")
		}
	}
	return nil
}

// ValidateUsage checks that no count of a usage, which may be nil, is over [MaxCount]. Field is its JSON pointer.
func ValidateUsage(field string, u *Usage) error {
	if u == nil {
		return nil
	}
	for _, x := range [...]struct {
		member string
		n      uint64
	}{{"/input_tokens", u.InputTokens}, {"/output_tokens", u.OutputTokens}, {"/cache_read_input_tokens", u.CacheRead}, {"/cache_creation_input_tokens", u.CacheCreation}} {
		if x.n > MaxCount {
			return malformed(field+x.member, "%d is over %d", x.n, uint64(MaxCount))
		}
	}
	return nil
}

// validate checks a ref. Field is its JSON pointer.
func (r *BlobRef) validate(field string) error {
	limit := uint64(MaxBody)
	if len(r.Pieces) > 0 {
		limit = MaxPart
	}
	switch {
	case r.Digest.IsZero():
		return malformed(field+"/digest", "missing")
	case r.Size > limit && limit == MaxPart:
		return tooLarge(field+"/size", "%d bytes, the limit of a part is %d", r.Size, limit)
	case r.Size > limit:
		return tooLarge(field+"/size", "%d bytes, the limit of one blob is %d; blob.put stores up to %d in pieces", r.Size, limit, MaxPart)
	case !utf8.ValidString(r.Preview):
		return malformed(field+"/preview", "not UTF-8")
	case len(r.Pieces) == 0:
		return nil
	case len(r.Pieces) != CountPieces(r.Size):
		return malformed(field+"/pieces", "%d pieces; %d bytes have %d, of %d bytes each", len(r.Pieces), r.Size, CountPieces(r.Size), MaxPiece)
	case slices.Contains(r.Pieces, Hash{}):
		return malformed(field+"/pieces", "a piece without a digest")
	}
	return nil
}

// word checks a short machine-made text: no control characters, [MaxName].
func word(field, member, s string) error {
	if len(s) > MaxName {
		return tooLarge(field+member, "%d bytes, the limit is %d", len(s), MaxName)
	}
	if !utf8.ValidString(s) {
		return malformed(field+member, "not UTF-8")
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return malformed(field+member, "holds a control character")
	}
	return nil
}

// What a person says of a session, at most.
const (
	MaxTitle = 1024 // bytes
	MaxTags  = 64
)

// ValidateDescription checks what a person says of a session: a title of at most [MaxTitle]
// bytes, tags as [ValidateWord] wants them, not empty, sorted and each once, and a project.
func ValidateDescription(b *DescribedBody) error {
	switch {
	case len(b.Title) > MaxTitle:
		return tooLarge("/title", "%d bytes, the limit is %d", len(b.Title), MaxTitle)
	case len(b.Tags) > MaxTags:
		return tooLarge("/tags", "%d tags, the limit is %d", len(b.Tags), MaxTags)
	case !ascending(b.Tags, strings.Compare):
		return malformed("/tags", "not sorted, or one is there twice")
	case !utf8.ValidString(b.Title):
		return malformed("/title", "not UTF-8")
	case strings.ContainsFunc(b.Title, isControl):
		return malformed("/title", "holds a control character or a line break")
	}
	for i, tag := range b.Tags {
		f := "/tags/" + strconv.Itoa(i)
		if tag == "" {
			return malformed(f, "empty")
		}
		if err := ValidateWord(f, tag); err != nil {
			return err
		}
	}
	return ValidateWord("/project", b.Project)
}

// ValidateLabel checks a session's label: at most [MaxLabel] bytes of UTF-8
// without control or invisible characters ([IsHidden]) and noncharacters, not empty,
// and not the form of an ID, which a label would then hide.
func ValidateLabel(field, s string) error {
	if len(s) > MaxLabel {
		return tooLarge(field, "%d bytes, the limit is %d", len(s), MaxLabel)
	}
	if s == "" {
		return malformed(field, "empty")
	}
	if err := ValidateWord(field, s); err != nil {
		return err
	}
	if _, err := ParseID(s); err == nil {
		return malformed(field, "a label can't have the form of an id")
	}
	return nil
}
