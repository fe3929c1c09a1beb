package plain

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// Placeholder returns a text that describes p, for a format that can't show it.
func Placeholder(p *turns.Part) string {
	kind := p.MimeType
	if kind == "" {
		kind = p.Modality
	}
	if kind == "" {
		kind = string(p.Type)
	}
	switch {
	case p.Ref != nil && p.Ref.Preview != "":
		return fmt.Sprintf("[%s of %d bytes, stored as %s, beginning with]\n%s", kind, p.Ref.Size, p.Ref.Address(), p.Ref.Preview)
	case p.Ref != nil:
		return fmt.Sprintf("[%s of %d bytes, stored as %s]", kind, p.Ref.Size, p.Ref.Address())
	case p.Type == turns.Blob:
		return fmt.Sprintf("[%s of %d bytes, not shown]", kind, len(p.Data))
	case p.Type == turns.URI && !strings.HasPrefix(p.Content, "data:"):
		return fmt.Sprintf("[%s at %s]", kind, p.Content)
	case p.Type == turns.File:
		return fmt.Sprintf("[%s in file %s]", kind, p.Content)
	}
	return fmt.Sprintf("[%s, not shown]", kind)
}

// Text returns the text of p: its content, or a placeholder; "" for reasoning.
func Text(p *turns.Part) string {
	switch {
	case p.Type == turns.Reasoning:
		return ""
	case p.Type == turns.Text && p.Ref == nil:
		return p.Content
	}
	return Placeholder(p)
}

// IsBlank reports whether s is empty or only white space. Anthropic's server
// strips text as Python does, which counts the separators U+001C to U+001F.
func IsBlank(s string) bool { return strings.TrimLeftFunc(s, IsSpace) == "" }

func IsSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

// Picture is an image for a provider: its bytes in base64, or its address.
type Picture struct{ MIME, Base64, URL string }

// PictureOf returns the image in p. ok is false if p holds none that providers accept (JPEG, PNG, GIF, WebP; http and https).
func PictureOf(p *turns.Part) (pic Picture, ok bool) {
	switch {
	case p.Ref != nil:
		return Picture{}, false
	case p.Type == turns.Blob && len(p.Data) > 0:
		mime, ok := imageType(p.MimeType)
		return Picture{MIME: mime, Base64: base64.StdEncoding.EncodeToString(p.Data)}, ok
	case p.Type != turns.URI:
		return Picture{}, false
	}
	if mime, data, ok := DataURI(p.Content); ok {
		mime, ok = imageType(mime)
		return Picture{MIME: mime, Base64: data}, ok
	}
	if p.Modality != "image" && !strings.HasPrefix(p.MimeType, "image/") {
		return Picture{}, false
	}
	ok = strings.HasPrefix(p.Content, "https://") || strings.HasPrefix(p.Content, "http://")
	return Picture{MIME: p.MimeType, URL: p.Content}, ok
}

func imageType(mime string) (string, bool) {
	switch m := strings.ToLower(mime); m {
	case "image/jpg":
		return "image/jpeg", true
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return m, true
	}
	return "", false
}

// DataURI splits a data: URI in base64 (RFC 2397); data is valid base64 and
// not empty.
func DataURI(s string) (mime, data string, ok bool) {
	s, ok = strings.CutPrefix(s, "data:")
	if !ok {
		return "", "", false
	}
	mime, data, ok = strings.Cut(s, ";base64,")
	if !ok || data == "" {
		return "", "", false
	}
	_, err := base64.StdEncoding.Strict().DecodeString(data)
	return mime, data, err == nil && !strings.ContainsAny(data, "\r\n")
}

// ResultParts returns what a tool returned as a list of text, blob, uri and file parts:
// the response itself if it is such a list, else one text with the string, or with the
// JSON of any other value.
func ResultParts(p *turns.Part) []turns.Part {
	if p.Ref != nil {
		return []turns.Part{turns.TextPart(Placeholder(p))}
	}
	if s, ok := p.Response.Text(); ok {
		return []turns.Part{turns.TextPart(s)}
	}
	if parts, ok := PartList(p.Response); ok {
		return parts
	}
	return []turns.Part{turns.TextPart(string(p.Response))}
}

func PartList(r turns.Raw) ([]turns.Part, bool) {
	if r.Kind() != '[' {
		return nil, false
	}
	m := turns.Message{Role: turns.Tool}
	list := append(append([]byte(`{"role":"tool","parts":`), r...), '}')
	if turns.DecodeJSON(list, &m) != nil || len(m.Parts) == 0 || m.Validate("") != nil {
		return nil, false
	}
	for i := range m.Parts {
		switch m.Parts[i].Type {
		case turns.Text, turns.Blob, turns.URI, turns.File:
		default:
			return nil, false
		}
	}
	return m.Parts, true
}

// Ext reads the named member of p.Ext into v. Members that v does not know
// are ignored. ok is false if there is no such member, or one of another kind.
func Ext(p *turns.Part, provider string, v any) (ok bool) {
	if p.Ext == nil {
		return false
	}
	var ext map[string]turns.Raw
	if json.Unmarshal(p.Ext, &ext) != nil || ext[provider] == nil {
		return false
	}
	return json.Unmarshal(ext[provider], v) == nil
}

// ArgumentsOf returns the arguments of a call from the text that the model wrote, which
// may be no JSON.
func ArgumentsOf(s string) turns.Raw {
	if IsBlank(s) {
		return turns.Raw("{}")
	}
	var v turns.Raw
	if turns.DecodeJSON([]byte(s), &v) != nil {
		return turns.RawText(s)
	}
	return v
}

// ResultOf is the response that [ResultParts] takes apart again: a string for
// at most one text, else a list of parts.
func ResultOf(parts []turns.Part) (turns.Raw, error) {
	switch {
	case len(parts) == 0:
		return turns.RawText(""), nil
	case len(parts) == 1 && parts[0].Type == turns.Text:
		return turns.RawText(parts[0].Content), nil
	}
	b, err := turns.EncodeJSON(turns.Message{Parts: parts})
	if err != nil {
		return nil, err
	}
	var m struct {
		Parts turns.Raw `json:"parts"`
	}
	err = json.Unmarshal(b, &m)
	return m.Parts, err
}

// Image returns an image by its address, and a blob if the address holds the bytes.
func Image(url string) turns.Part {
	if mime, data, ok := DataURI(url); ok && mime != "" {
		b, _ := base64.StdEncoding.Strict().DecodeString(data) // dataURI has tried it
		return turns.Part{Type: turns.Blob, Modality: "image", MimeType: mime, Data: b}
	}
	return turns.Part{Type: turns.URI, Modality: "image", Content: url}
}

// IsIDRune reports whether r may stand in a tool's name or a call's id with
// every provider: [a-zA-Z0-9_-].
func IsIDRune(r rune) bool {
	return r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// ToolName returns name with _ for each character that a provider refuses, cut to max
// characters.
func ToolName(name string, max int) string {
	s := strings.Map(func(r rune) rune {
		if IsIDRune(r) {
			return r
		}
		return '_'
	}, name)
	if s == "" {
		return "_"
	}
	return s[:min(len(s), max)]
}

// Object returns v if it is a JSON object, else {"value": v}: tool inputs and
// Gemini's results must be objects.
func Object(v turns.Raw) turns.Raw {
	switch v.Kind() {
	case '{':
		return v
	case 0:
		return turns.Raw("{}")
	}
	return append(append(turns.Raw(`{"value":`), v...), '}')
}

// Arguments returns the arguments of a call, of any JSON kind, and a placeholder if
// they are in a blob.
func Arguments(p *turns.Part) turns.Raw {
	if p.Ref != nil {
		return turns.RawText(Placeholder(p))
	}
	return p.Arguments
}

// Result is a result as text and pictures.
func Result(p *turns.Part) (text string, pictures []turns.Part) {
	if p.Ref == nil {
		if s, ok := p.Response.Text(); ok {
			return s, nil
		}
	}
	var said []string
	for _, q := range ResultParts(p) {
		if pic, ok := PictureOf(&q); ok && pic.Base64 != "" {
			pictures = append(pictures, q)
			continue
		}
		said = append(said, Text(&q))
	}
	return strings.Join(said, "\n"), pictures
}

// ResultText is a result as text, its pictures described.
func ResultText(p *turns.Part) string {
	text, pictures := Result(p)
	for i := range pictures {
		if text != "" {
			text += "\n"
		}
		text += Text(&pictures[i])
	}
	return text
}

// KeptText is what a compaction kept, as text.
func KeptText(kept []turns.Message) string {
	var b strings.Builder
	for i := range kept {
		m := &kept[i]
		for j := range m.Parts {
			p := &m.Parts[j]
			switch p.Type {
			case turns.Reasoning:
			case turns.ToolCall:
				fmt.Fprintf(&b, "\n[%s called %s with %s]\n", m.Role, p.Name, Arguments(p))
			case turns.ToolCallResponse:
				fmt.Fprintf(&b, "\n[it returned]\n%s\n", ResultText(p))
			default:
				fmt.Fprintf(&b, "\n[%s]\n%s\n", m.Role, Text(p))
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n\nWhat was said last, word for word:\n" + b.String()
}
