package prose

import (
	"bytes"
	"cmp"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/compactor/summary"
	"nexus/turns"
)

// PartBeginning is the text of a part, or the beginning of a large one.
func PartBeginning(p *turns.Part) string {
	switch {
	case p.Ref != nil:
		return p.Ref.Preview
	case p.Type == turns.ToolCallResponse && p.Response.Kind() == '{':
		_, text := members(p.Response)
		return cmp.Or(text, string(p.Response))
	case p.Type == turns.ToolCallResponse:
		return summary.ResultText(p)
	}
	return p.Content
}

// FirstArgument is the first argument of a call that is a text, else the first one, in a
// few words.
func FirstArgument(args turns.Raw) string {
	if args.Kind() != '{' {
		return Clip(JSONText(args), 60)
	}
	first, text := members(args)
	return Clip(cmp.Or(text, first), 60)
}

// members returns the first value of an object, and the first that is a text.
func members(object turns.Raw) (first, text string) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil { // the brace
		return "", ""
	}
	for d.PeekKind() == '"' {
		if d.SkipValue() != nil { // the name
			break
		}
		v, err := d.ReadValue()
		if err != nil {
			break
		}
		first = cmp.Or(first, JSONText(turns.Raw(v)))
		if v.Kind() == '"' {
			if text = JSONText(turns.Raw(v)); text != "" {
				break
			}
		}
	}
	return first, text
}

// JSONText is a string's text, or another value's JSON.
func JSONText(v turns.Raw) string {
	if s, ok := v.Text(); ok {
		return s
	}
	return string(v)
}

// EscapeHidden returns the JSON b with its hidden characters as \u escapes. It is the
// same value: such a character is in strings only, or white space around the value.
func EscapeHidden(b []byte) []byte {
	var out []byte
	for _, r := range string(b) {
		if turns.IsHidden(r) && r != '\n' && r != '\t' {
			for _, u := range utf16.AppendRune(nil, r) { // JSON escapes half a surrogate pair at a time
				out = fmt.Appendf(out, `\u%04x`, u)
			}
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}
