package turns

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of what one turn may hold. Counts, not bytes, unless said otherwise.
const (
	MaxMessages = 4096 // messages in one turn
	MaxParts    = 4096 // parts in one message
	MaxName     = 512  // bytes of a role-like word: tool name, call id, mime type, model
	MaxLabel    = 256  // bytes
)

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// ValidName reports whether s may name a tenant or an agent:
// [a-z0-9][a-z0-9-]{0,63}. The operator's "_" is not one.
func ValidName(s string) bool { return nameRE.MatchString(s) }

// ValidateMessages checks the messages half of a turn. Field is the JSON
// pointer of the list, for errors.
func ValidateMessages(field string, ms []Message) error {
	if len(ms) > MaxMessages {
		return tooLarge(field, "%d messages, the limit is %d", len(ms), MaxMessages)
	}
	for i := range ms {
		f := fmt.Sprintf("%s/%d", field, i)
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
	if err := word(field+"/name", m.Name); err != nil {
		return err
	}
	if err := word(field+"/finish_reason", m.FinishReason); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i := range m.Parts {
		p := &m.Parts[i]
		f := fmt.Sprintf("%s/parts/%d", field, i)
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

// fields that a part of each type may have, by their JSON names.
var partFields = map[PartType]string{
	Text:             "content ref",
	Reasoning:        "content ref",
	ToolCall:         "id name arguments ref",
	ToolCallResponse: "id name response is_error ref",
	Blob:             "modality mime_type data ref",
	URI:              "modality mime_type content",
	File:             "modality mime_type content",
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
		if f.set && !slices.Contains(strings.Fields(allowed), f.name) {
			name := f.name
			if name == "data" {
				name = "content"
			}
			return malformed(field+"/"+name, "a %s part has no such field", p.Type)
		}
	}
	for _, w := range []struct{ name, s string }{{"id", p.ID}, {"name", p.Name}, {"modality", p.Modality}, {"mime_type", p.MimeType}} {
		if err := word(field+"/"+w.name, w.s); err != nil {
			return err
		}
	}
	if !utf8.ValidString(p.Content) {
		return malformed(field+"/content", "not UTF-8")
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

// word checks a short machine-made text: no control characters, [MaxName].
func word(field, s string) error {
	if len(s) > MaxName {
		return tooLarge(field, "%d bytes, the limit is %d", len(s), MaxName)
	}
	if !utf8.ValidString(s) {
		return malformed(field, "not UTF-8")
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return malformed(field, "holds a control character")
	}
	return nil
}

// ValidateLabel checks a session's label: at most [MaxLabel] bytes of UTF-8
// without control characters, not empty, and not the form of an ID, which a
// label would then hide.
func ValidateLabel(field, s string) error {
	if len(s) > MaxLabel {
		return tooLarge(field, "%d bytes, the limit is %d", len(s), MaxLabel)
	}
	if s == "" {
		return malformed(field, "empty")
	}
	if err := word(field, s); err != nil {
		return err
	}
	if _, err := ParseID(s); err == nil {
		return malformed(field, "a label can't have the form of an id")
	}
	return nil
}

// Validate checks what of an event can be checked by itself. Its relation to
// the chain and the lineage is package ledger's to check.
func (e *Event) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: event %s (%s): %s", ErrMalformed, e.ID, e.Kind, fmt.Sprintf(format, args...))
	}
	switch {
	case e.Version != Version:
		return bad("version %d", e.Version)
	case e.ID.IsZero():
		return bad("no id")
	case e.Index == 0 != e.Prev.IsZero():
		return bad("index %d with prev %v", e.Index, e.Prev)
	case e.Recorded <= 0:
		return bad("no recorded time")
	case len(e.Actor) > 200 || !utf8.ValidString(e.Actor):
		return bad("actor")
	case e.Encoding > Zstd|Sealed:
		return fmt.Errorf("%w: body encoding %d", ErrUnsupported, e.Encoding)
	case e.Encoding&Sealed != 0 && len(e.Keys) == 0:
		return bad("sealed without a key")
	case !slices.IsSortedFunc(e.Keys, ID.Compare) || len(slices.Compact(slices.Clone(e.Keys))) != len(e.Keys):
		return bad("keys are not sorted and distinct")
	case len(e.Keys) > 1024:
		return bad("%d keys", len(e.Keys))
	case e.Halves > Halves(MessagesHalf|ResponseHalf):
		return bad("halves %d", e.Halves)
	}
	switch e.Chain.Entity {
	case SessionEntity:
		if _, err := ParseID(e.Chain.ID); err != nil {
			return bad("chain %q", clip(e.Chain.ID, 40))
		}
	case LabelEntity, AgentEntity, TenantEntity, ChannelEntity:
		if !nameRE.MatchString(e.Chain.ID) {
			return bad("chain %q", clip(e.Chain.ID, 40))
		}
	default:
		return bad("chain entity %q", clip(string(e.Chain.Entity), 8))
	}
	session := e.Chain.Entity == SessionEntity
	if session == (e.Kind == KindClaimed) {
		return bad("does not belong on chain %s", e.Chain)
	}
	if session && (e.Kind == KindOpened) != (e.Index == 0) {
		return bad("at index %d", e.Index)
	}
	// Which fields go with which kind.
	for _, f := range []struct {
		name string
		set  bool
		on   []Kind
	}{
		{"parent", !e.Parent.IsZero(), []Kind{KindTurn, KindCompaction}},
		{"depth", e.Depth != 0, []Kind{KindTurn, KindCompaction}},
		{"segment", !e.Segment.IsZero(), []Kind{KindTurn, KindCompaction}},
		{"halves", e.Halves != 0, []Kind{KindTurn}},
		{"calls", e.Calls != 0, []Kind{KindTurn}},
		{"tokens", !e.Tokens.IsZero(), []Kind{KindTurn, KindCompaction}},
		{"span", e.Span != nil, []Kind{KindCompaction}},
		{"usage", e.Usage != nil, []Kind{KindTurn, KindCompaction}},
		{"open", e.Open != 0, []Kind{KindTurn, KindCompaction}},
		{"late", e.Late != 0, []Kind{KindTurn}},
		{"left", e.Left != 0, []Kind{KindTurn}},
		{"origin", e.Origin != nil, []Kind{KindOpened}},
		{"fork_of", e.ForkOf != nil, []Kind{KindOpened}},
		{"root", !e.Root.IsZero(), []Kind{KindOpened}},
		{"agent", e.Agent != "", []Kind{KindOpened, KindClaimed}},
		{"role", e.Role != "", []Kind{KindOpened}},
		{"spawned_by", !e.SpawnedBy.IsZero(), []Kind{KindOpened}},
		{"to", !e.To.IsZero(), []Kind{KindMoved, KindClaimed}},
		{"state", e.State != 0, []Kind{KindState}},
		{"successor", !e.Successor.IsZero(), []Kind{KindState}},
	} {
		if f.set && !slices.Contains(f.on, e.Kind) {
			return bad("has a %s", f.name)
		}
	}
	switch e.Kind {
	case KindOpened:
		if e.Origin == nil || e.Root.IsZero() || !ValidName(e.Agent) {
			return bad("lacks origin, root or agent")
		}
		if f := e.ForkOf; f != nil && (f.At.IsZero() || f.Hash.IsZero() || f.Mode < AsSeen || f.Mode > Summary) {
			return bad("fork point")
		}
		switch e.Role {
		case "", Peer, Main, Task:
		default:
			return bad("role %q", clip(string(e.Role), 40))
		}
	case KindTurn:
		if e.Depth == 0 || e.Segment.IsZero() {
			return bad("lacks depth or segment")
		}
		if (e.Depth == 1) != e.Parent.IsZero() {
			return bad("depth %d with parent %v", e.Depth, e.Parent)
		}
		if e.Halves == 0 {
			return bad("has neither messages nor a response")
		}
	case KindCompaction:
		if e.Depth < 2 || e.Parent.IsZero() || e.Segment.IsZero() {
			return bad("lacks parent, depth or segment")
		}
		if e.Span == nil {
			return bad("lacks its span")
		}
		return e.Span.validate(bad)
	case KindState:
		if e.State < Paused || e.State > Erased {
			return bad("state %d", e.State)
		}
	case KindClaimed:
		if e.To.Session.IsZero() || !e.To.Turn.IsZero() || !ValidName(e.Agent) {
			return bad("claims nothing")
		}
	}
	return nil
}

func (s *Span) validate(bad func(string, ...any) error) error {
	switch {
	case s.Provenance != ByNexus && s.Provenance != Imported:
		return bad("provenance %d", s.Provenance)
	case s.Dropped && s.Provenance != Imported:
		return bad("drops turns without being imported")
	case s.Split && (s.Through.IsZero() || s.Through != s.FirstKept):
		return bad("split, but ends at %v and keeps from %v", s.Through, s.FirstKept)
	case !s.Split && !s.Through.IsZero() && s.Through == s.FirstKept:
		return bad("covers and keeps %v without a split", s.Through)
	case s.Through.IsZero() && s.Covered != 0:
		return bad("covers %d turns but names no last one", s.Covered)
	}
	return nil
}
