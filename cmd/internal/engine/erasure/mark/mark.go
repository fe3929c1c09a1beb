// Package mark puts markers in the places of texts in bodies. It opens and stores nothing.
package mark

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"nexus/turns"
)

// Marker stands in the place of what was taken.
const Marker = "[redacted]"

// Bounds of a text that is taken out, in bytes: a shorter one is part of ordinary words.
const minText, maxText = 4, 64 << 10

// Check checks a text that is to be taken out, in a field of a request. Errors: [*turns.FieldError].
func Check(field, text string) error {
	bad := func(format string, args ...any) error {
		return &turns.FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Kind: turns.ErrMalformed}
	}
	switch n := len(text); {
	case n < minText || n > maxText:
		return bad("%d bytes, it may have %d to %d", n, minText, maxText)
	case !utf8.ValidString(text):
		return bad("not UTF-8")
	case strings.Contains(Marker, text):
		return bad("the marker %s has it", Marker)
	}
	return nil
}

// Text finds a text as it is, and as JSON, a JSON text in JSON, an address and HTML escape it.
//
// It does not find a text that is split, over two parts for instance, or that is encoded otherwise: in base64, compressed.
type Text struct {
	forms   []string       // the longest first
	escaped *regexp.Regexp // any mixture of escapes; nil for a long text
	longest int
	names   int // of JSON objects that have a marker
	Count   int // how often it was found
}

// maxEscaped bounds the texts of which any mixture of escapes is found, in bytes; of a longer one each way alone is.
const maxEscaped = 1 << 10

// NewText returns what finds a text that is not empty.
func NewText(text string) *Text {
	once := inner(text)
	t := &Text{forms: []string{text, once, inner(once), url.QueryEscape(text), url.PathEscape(text), html.EscapeString(text)}}
	slices.SortFunc(t.forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	t.forms = slices.Compact(t.forms)
	t.longest = len(t.forms[0])
	if len(text) <= maxEscaped {
		t.escaped = regexp.MustCompile(escapes(text))
		t.longest = max(t.longest, 14*len(text)) // a surrogate pair with three backslashes each
	}
	return t
}

// Fresh is t, with nothing counted.
func (t *Text) Fresh() *Text {
	x := *t
	x.names, x.Count = 0, 0
	return &x
}

// escapes is an expression for a text each character of which may be escaped in any of the ways.
func escapes(text string) string {
	var b strings.Builder
	for _, r := range text {
		fmt.Fprintf(&b, `(?:%s|\\{1,3}u(?i:%s)`, regexp.QuoteMeta(string(r)), utf16Digits(r))
		if r != ' ' {
			fmt.Fprintf(&b, `|(?i:%s)`, percent(r))
		} else {
			b.WriteString(`|%20|\+`)
		}
		for _, other := range others[r] {
			b.WriteString("|" + other)
		}
		b.WriteByte(')')
	}
	return b.String()
}

// others are further ways to write a character: the short escapes of JSON, of which a text in a text has more backslashes, and those
// of HTML.
var others = map[rune][]string{
	'"': {`\\{1,3}"`, "&quot;", "&#34;"}, '\\': {`\\{2,4}`}, '/': {`\\{1,3}/`}, '\n': {`\\{1,3}n`}, '\t': {`\\{1,3}t`}, '\r': {`\\{1,3}r`},
	'&': {"&amp;", "&#38;"}, '<': {"&lt;"}, '>': {"&gt;"}, '\'': {"&#39;", "&#x27;", "&apos;"},
}

// utf16Digits is a character as JSON spells it behind \u.
func utf16Digits(r rune) string {
	if a, b := utf16.EncodeRune(r); a != utf8.RuneError {
		return fmt.Sprintf(`%04x\\{1,3}u%04x`, a, b)
	}
	return fmt.Sprintf("%04x", r)
}

// percent is a character as an address spells it.
func percent(r rune) (out string) {
	for _, c := range []byte(string(r)) {
		out += fmt.Sprintf("%%%02x", c)
	}
	return out
}

// inner is a text as it stands in a JSON string.
func inner(text string) string {
	b := turns.RawText(text)
	return string(b[1 : len(b)-1])
}

// In reports whether b has the text. It counts nothing.
func (t *Text) In(b []byte) bool {
	if slices.ContainsFunc(t.forms, func(f string) bool { return bytes.Contains(b, []byte(f)) }) {
		return true
	}
	return t.escaped != nil && mayEscape(b) && t.escaped.Match(b)
}

// mayEscape reports whether a text may have an escape: an expression takes ten times what a search for its sign does.
func mayEscape(b []byte) bool { return bytes.ContainsAny(b, `\%&`) }

// Longest is how many bytes the text takes at most.
func (t *Text) Longest() int { return t.longest }

// String returns s with markers.
func (t *Text) String(s string) string {
	for _, f := range t.forms {
		s = t.form(s, f)
	}
	if t.escaped == nil || !strings.ContainsAny(s, `\%&`) {
		return s
	}
	return t.escaped.ReplaceAllStringFunc(s, func(string) string { t.Count++; return Marker })
}

// form returns s with a marker in the place of each f, and one for several that overlap.
func (t *Text) form(s, f string) string {
	var b strings.Builder
	for {
		at := strings.Index(s, f)
		if at < 0 {
			if b.Len() == 0 {
				return s
			}
			return b.String() + s
		}
		end := at + len(f)
		for last := at; ; { // another one that begins before this one ends
			n := strings.Index(s[last+1:min(len(s), end-1+len(f))], f)
			if n < 0 {
				break
			}
			last += 1 + n
			end = last + len(f)
		}
		t.Count++
		b.WriteString(s[:at])
		b.WriteString(Marker)
		s = s[end:]
	}
}

// JSON returns a JSON value with markers in its strings and names, and in the places of numbers that have the text. What
// has none of it keeps its bytes.
func (t *Text) JSON(r turns.Raw) turns.Raw { return t.json(r, nil) }

// ours is JSON of which the names, and the texts behind these names, say how it is read.
func (t *Text) ours(r turns.Raw, fixed ...string) turns.Raw { return t.json(r, append(fixed, "")) }

// json is JSON; with fixed it leaves names, and strings behind those names.
func (t *Text) json(r turns.Raw, fixed []string) turns.Raw {
	out := make(turns.Raw, 0, len(r))
	t.names = bytes.Count(r, []byte(Marker))
	last := "" // name
	for i := 0; i < len(r); {
		switch c := r[i]; {
		case c == '"':
			end, ok := turns.ValueEnd(r, i)
			if !ok {
				return append(out, r[i:]...) // no JSON
			}
			token := r[i:end]
			i = end
			s, ok := token.Text()
			isName := i < len(r) && r[bytesSpace(r, i)] == ':'
			switch {
			case !ok || isName && fixed != nil || !isName && last != "" && slices.Contains(fixed, last):
			default:
				before := t.Count
				if marked := t.String(s); t.Count > before {
					if isName { // no two of an object are the same
						if t.names++; t.names > 1 {
							marked += fmt.Sprintf(" (%d)", t.names)
						}
					}
					token = turns.RawText(marked)
				}
			}
			if last = ""; isName {
				last = s
			}
			out = append(out, token...)
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(r) && strings.IndexByte("0123456789+-.eE", r[end]) >= 0 {
				end++
			}
			number := r[i:end]
			i, last = end, ""
			if fixed == nil {
				if before := t.Count; t.String(string(number)) != string(number) && t.Count > before {
					number = turns.RawText(Marker)
				}
			}
			out = append(out, number...)
		default:
			if c == '{' || c == '[' || c == ',' {
				last = ""
			}
			out = append(out, c)
			i++
		}
	}
	return out
}

// bytesSpace is the place of the first byte from i on that is no white space; i at the end.
func bytesSpace(r turns.Raw, i int) int {
	for j := i; j < len(r); j++ {
		if strings.IndexByte(" \t\r\n", r[j]) < 0 {
			return j
		}
	}
	return len(r) - 1
}

// kept are the fields that say how a body is read, not what was said: words of the format, ids that pair calls with
// responses, digests. A marker in one of them would make the body unreadable, or another.
var kept = map[string]bool{
	"Message.Role": true, "Message.Name": true, "Message.FinishReason": true, "Part.Type": true, "Part.ID": true, "Part.Name": true, "Part.Modality": true, "Part.MimeType": true,
	"BlobRef.MimeType": true, "PolicyRef.Name": true, "PolicyRef.Set": true, "Settings.Model": true, "Settings.Reset": true, "TurnBody.Model": true,
	"OpenedBody.Label": true, "ChangedBody.Label": true, "ContextRef.Recipe": true, "ContextRef.Fingerprint": true, "CompactionBody.Model": true,
	"CompactionBody.Mode": true, "CompactionBody.Tier": true, "CompactionBody.Flush": true, "Trigger.Kind": true, "ElidedPart.Method": true, "ElidedPart.Tool": true,
}

// Body puts markers in all texts of the body that v points at, but in those that say how it is read. What v refers to must be
// the caller's own. A reasoning that has a marker loses what its provider signed.
func (t *Text) Body(v any) { t.walk(reflect.ValueOf(v).Elem()) }

func (t *Text) walk(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *turns.Preamble:
		for i := range x.System {
			t.walk(reflect.ValueOf(&x.System[i]).Elem())
		}
		for i := range x.Tools { // a tool is called by its name
			x.Tools[i] = t.ours(x.Tools[i], "name", "type")
		}
		return
	case *turns.CompactionBody:
		for _, r := range []*turns.Raw{&x.Survival, &x.Trigger.Detail, &x.Memories} {
			if *r != nil {
				*r = t.ours(*r, "kind", "session", "turn", "type", "state")
			}
		}
		memories, survival, detail := x.Memories, x.Survival, x.Trigger.Detail
		x.Memories, x.Survival, x.Trigger.Detail = nil, nil, nil
		t.fields(v)
		x.Memories, x.Survival, x.Trigger.Detail = memories, survival, detail
		return
	case *turns.DescribedBody:
		t.fields(v)
		slices.Sort(x.Tags)
		x.Tags = slices.Compact(x.Tags)
		if turns.ValidateDescription(x) != nil { // the markers made it too long
			*x = turns.DescribedBody{Title: Marker, Project: x.Project}
			if turns.ValidateDescription(x) != nil {
				x.Project = ""
			}
		}
		return
	case *turns.Raw:
		if t.In(*x) || bytes.IndexByte(*x, '\\') >= 0 { // it may be escaped in another way
			*x = t.JSON(*x)
		}
		return
	case *turns.Part:
		t.Part(x)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(t.String(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			t.walk(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			t.walk(v.Index(i))
		}
	case reflect.Struct:
		t.fields(v)
	}
}

func (t *Text) fields(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Name != "_" && !kept[v.Type().Name()+"."+f.Name] {
			t.walk(v.Field(i))
		}
	}
}

// Part is Body of a part.
func (t *Text) Part(p *turns.Part) {
	before := t.Count
	if len(p.Data) > 0 && t.In(p.Data) {
		t.Count++
		Part(p)
		return
	}
	t.fields(reflect.ValueOf(p).Elem())
	switch {
	case t.Count == before:
	case p.Type == turns.Reasoning:
		p.Ext = nil
	case p.Type == turns.URI || p.Type == turns.File: // nobody could follow it
		Part(p)
	}
}

// Part puts a marker in the place of all that a part says. Its type stays, and what pairs a call with its response.
func Part(p *turns.Part) {
	*p = turns.Part{Type: p.Type, ID: p.ID, Name: p.Name, IsError: p.IsError, Modality: p.Modality, MimeType: p.MimeType}
	switch p.Type {
	case turns.ToolCall:
		p.Arguments = turns.Raw(`{"redacted":true}`)
	case turns.ToolCallResponse:
		p.Response = turns.RawText(Marker)
	case turns.Blob:
		p.Data, p.Modality, p.MimeType = []byte(Marker), "", "text/plain" // an image that is none would be refused by its provider
	default:
		p.Content = Marker
	}
}

// Span puts a marker in the place of bytes [from, to) of a part's text: of a call or a response that of its JSON. It reports
// false, and changes nothing, where the part has no such bytes, or would not be one behind it.
func Span(p *turns.Part, from, to int) bool {
	b := p.ContentBytes()
	if p.Ref != nil || p.Type == turns.Blob || from < 0 || from >= to || to > len(b) || !boundary(b, from) || !boundary(b, to) {
		return false
	}
	out := slices.Concat(b[:from], []byte(Marker), b[to:])
	if (p.Type == turns.ToolCall || p.Type == turns.ToolCallResponse) && (inEscape(b, from) || inEscape(b, to) || !turns.ValidJSON(out)) {
		return false
	}
	p.SetContent(out)
	if p.Type == turns.Reasoning {
		p.Ext = nil
	}
	return true
}

// boundary reports whether a character begins at i, or the text ends.
func boundary(b []byte, i int) bool { return i == len(b) || b[i]&0xc0 != 0x80 }

// inEscape reports whether i is within an escape of a JSON value: what is left of one would be other characters.
func inEscape(b []byte, i int) bool {
	for at := 0; at < i; at++ {
		if b[at] != '\\' {
			continue
		}
		if at++; at < len(b) && b[at] == 'u' {
			at += 4
		}
		if at >= i {
			return true
		}
	}
	return false
}

// Rest puts markers in the places of what a body says beside its parts, but for the external event that a turn answers, which its
// header names.
func Rest(body any) error {
	switch b := body.(type) {
	case *turns.TurnBody:
		channel, id, ok := turns.ExternalEvent(b.Meta)
		if b.Meta = nil; ok {
			meta, err := turns.EncodeJSON(map[string]any{"event": map[string]string{"channel": channel, "id": id.String()}})
			if err != nil {
				return err
			}
			b.Meta = meta
		}
	case *turns.CompactionBody:
		for _, s := range []*string{&b.Summary, &b.Focus} {
			if *s != "" {
				*s = Marker
			}
		}
		for i := range b.Elided {
			if b.Elided[i].Show != "" {
				b.Elided[i].Show = Marker
			}
		}
		b.Survival, b.Meta, b.Trigger.Detail = nil, nil, nil
		if b.Memories == nil {
			return nil
		}
		var memories []memory
		if err := turns.DecodeJSON(b.Memories, &memories); err != nil {
			return err
		}
		for i := range memories {
			memories[i].Text = Marker
		}
		out, err := turns.EncodeJSON(memories)
		b.Memories = out
		return err
	case *turns.DescribedBody:
		*b = turns.DescribedBody{Title: Marker}
	case *turns.NotedBody:
		b.Text = Marker
	case *turns.OpenedBody:
		settings(&b.Settings)
	case *turns.ChangedBody:
		settings(&b.Settings)
	case *turns.MovedBody:
		if b.Note != "" {
			b.Note = Marker
		}
	case *turns.StateBody:
		if b.Cause != "" {
			b.Cause = Marker
		}
	case *turns.HiddenBody:
		if b.Cause != "" {
			b.Cause = Marker
		}
	case *turns.FlushBody:
		for _, s := range []*string{&b.Response, &b.Error} {
			if *s != "" {
				*s = Marker
			}
		}
	}
	return nil
}

// settings puts markers in the places of what a person or a program says in settings: system part, tools, meta, user.
func settings(s *turns.Settings) {
	has := s.PreambleBlob != nil || len(s.Preamble.System) > 0
	if s.Preamble, s.PreambleBlob, s.Meta = (turns.Preamble{}), nil, nil; has {
		s.Preamble.System = []turns.Section{{Content: Marker}}
	}
	if s.User != "" {
		s.User = Marker
	}
}

// memory is one of a compaction, as its body has it.
type memory struct {
	Kind   string    `json:"kind,omitempty"`
	Text   string    `json:"text"`
	Source turns.Raw `json:"source,omitempty"`
}
