package transcript

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// readObject reads the JSON object that b starts with and returns its bytes
// and its length in b, 0 if there is none. What JSON forbids but
// Claude Code's own reader takes is repaired, and said.
func readObject(b []byte) (v []byte, n int, repaired string) {
	if len(b) == 0 || b[0] != '{' {
		return nil, 0, ""
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(b))
	if v, err := d.ReadValue(); err == nil {
		return bytes.Clone(v), int(d.InputOffset()), ""
	}
	d = jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := relaxedValue(d)
	if err != nil {
		return nil, 0, ""
	}
	return v, int(d.InputOffset()), "duplicate members (the last was kept) or invalid UTF-8 (U+FFFD stands for it)"
}

// relaxedValue reads one value and writes it as valid JSON: of members with the
// same name the last, as JavaScript's JSON.parse does; U+FFFD for what is not
// UTF-8.
func relaxedValue(d *jsontext.Decoder) ([]byte, error) {
	if d.StackDepth() > turns.MaxNesting+10 {
		return nil, turns.ErrTooLarge
	}
	switch d.PeekKind() {
	case '{':
		d.ReadToken()
		var names []string
		at := make(map[string]int)
		var vals [][]byte
		for d.PeekKind() == '"' {
			t, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			name := strings.ToValidUTF8(t.String(), "\uFFFD")
			v, err := relaxedValue(d)
			if err != nil {
				return nil, err
			}
			if i, ok := at[name]; ok {
				vals[i] = v
				continue
			}
			at[name] = len(names)
			names, vals = append(names, name), append(vals, v)
		}
		if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
			return nil, turns.ErrMalformed
		}
		out := []byte{'{'}
		for i, name := range names {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, turns.RawText(name)...), ':'), vals[i]...)
		}
		return append(out, '}'), nil
	case '[':
		d.ReadToken()
		out := []byte{'['}
		for d.PeekKind() != ']' {
			v, err := relaxedValue(d)
			if err != nil {
				return nil, err
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, v...)
		}
		d.ReadToken()
		return append(out, ']'), nil
	case '"':
		t, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		return turns.RawText(strings.ToValidUTF8(t.String(), "\uFFFD")), nil
	default:
		v, err := d.ReadValue()
		return bytes.Clone(v), err
	}
}

// nextObject finds, after the start of b, an object that is whole to the end of the line,
// begins as a record does and has a type; -1 if there is none.
func nextObject(b []byte, begins []string) int {
	at := 1
	for range 16 { // each try may scan the line
		next := -1
		for _, begin := range begins {
			if i := bytes.Index(b[min(at, len(b)):], []byte(begin)); i >= 0 && (next < 0 || at+i < next) {
				next = at + i
			}
		}
		if next < 0 {
			return -1
		}
		if v, n, _ := readObject(b[next:]); n == len(b)-next && values.Members(v).Text("type") != "" {
			return next
		}
		at = next + 1
	}
	return -1
}
