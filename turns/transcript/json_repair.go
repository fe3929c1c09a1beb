package transcript

import (
	"bytes"
	"slices"
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
	if b[len(b)-1] == '}' && turns.IsSoundJSON(b) { // nearly always
		return bytes.Clone(b), len(b), ""
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

// innerBegin begins records of most formats, and objects inside of records too.
const innerBegin = `{"type":`

// nextRecord finds, after the start of b, a whole object that begins as a record of f does, -1 if
// there is none. Behind it is the end of the line or another record's beginning. What begins with
// [innerBegin] may be a piece of the torn record: it counts only where no other beginning is found,
// and at the end of the line.
func (f *LineFormat) nextRecord(b []byte) int {
	var own []string
	for _, begin := range f.Begins {
		if begin != innerBegin {
			own = append(own, begin)
		}
	}
	at := firstObject(b, slices.Concat(own, f.Untyped), func(v, rest []byte) bool {
		return (f.hasNoType(v) || values.Members(v).Text("type") != "") && (len(rest) == 0 || f.beginsRecord(rest))
	})
	if at < 0 && slices.Contains(f.Begins, innerBegin) {
		at = firstObject(b, []string{innerBegin}, func(v, rest []byte) bool { return len(rest) == 0 && values.Members(v).Text("type") != "" })
	}
	return at
}

// beginsRecord reports whether b begins as a record of f does.
func (f *LineFormat) beginsRecord(b []byte) bool {
	return f.hasNoType(b) || slices.ContainsFunc(f.Begins, func(begin string) bool { return bytes.HasPrefix(b, []byte(begin)) })
}

// hasNoType reports whether b begins as a record of f without a type does.
func (f *LineFormat) hasNoType(b []byte) bool {
	return slices.ContainsFunc(f.Untyped, func(begin string) bool { return bytes.HasPrefix(b, []byte(begin)) })
}

// firstObject finds, after the start of b, the first whole object that begins with one of begins
// and that is takes, with what follows it; -1 if there is none.
func firstObject(b []byte, begins []string, is func(v, rest []byte) bool) int {
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
		if v, n, _ := readObject(b[next:]); n > 0 && is(v, bytes.TrimSpace(b[next+n:])) {
			return next
		}
		at = next + 1
	}
	return -1
}
