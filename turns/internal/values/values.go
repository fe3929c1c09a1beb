package values

import (
	"bytes"
	"errors"
	"fmt"
	"nexus/turns"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Encoded returns v as JSON, nil if v can't be encoded. It is for values that were read
// from JSON.
func Encoded(v any) turns.Raw {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		return nil
	}
	return b
}

// WithUsage returns a meta object with the usage details of its turn, if there are any.
func WithUsage(meta turns.Raw, d turns.UsageDetails) turns.Raw {
	if d == (turns.UsageDetails{}) {
		return meta
	}
	return append(Members(meta), Member{"usage", Encoded(d)}).Raw()
}

// WithTimeBound returns a meta object that says how the time of its turn was bounded; the
// zero bound leaves it as it is.
func WithTimeBound(meta turns.Raw, b turns.TimeBound) turns.Raw {
	if b == "" {
		return meta
	}
	return append(Members(meta), Member{"time_bound", turns.RawText(string(b))}).Raw()
}

// WithProgramMessages returns a meta object that says which messages of its turn a program
// wrote in the name of the user, by index.
func WithProgramMessages(meta turns.Raw, at []int) turns.Raw {
	if len(at) == 0 {
		return meta
	}
	return append(Members(meta), Member{"program_messages", Encoded(at)}).Raw()
}

// ProviderExt returns the Ext of a part: a value that only one provider may see. It
// returns nil if there is no value.
func ProviderExt(provider, member string, v turns.Raw) turns.Raw {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil
	}
	return Encoded(map[string]map[string]turns.Raw{provider: {member: v}})
}

// ArgumentsOrEmpty returns v, the arguments of a call, and {} if there are none.
func ArgumentsOrEmpty(v turns.Raw) turns.Raw {
	if v == nil {
		return turns.Raw("{}")
	}
	return v
}

// NonNil returns ms, and an empty list for nil: JSON has a list in both cases.
func NonNil(ms []turns.Message) []turns.Message {
	if ms == nil {
		return []turns.Message{}
	}
	return ms
}

// OrphanBegin begins the text before a tool result whose call was not read.
const OrphanBegin = "[result of a tool call that is not in the transcript, id "

// OrphanText returns the text before a tool result whose call was not read.
func OrphanText(id string) string {
	return OrphanBegin + strconv.Quote(id) + "]"
}

// Text returns the text of a JSON string, and any other value as its JSON.
func Text(raw turns.Raw) string {
	if s, ok := raw.Text(); ok {
		return s
	}
	return string(raw)
}

// Member is one member of a JSON object, in its place.
type Member struct {
	Name  string
	Value turns.Raw
}

type Object []Member

// Members returns the members of the object r, nil for another value. Their values are r's memory.
func Members(r turns.Raw) Object {
	if r.Kind() != '{' {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(r)) // it reads a buffer in place
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	var o Object
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return nil
		}
		name := t.String()
		v, err := d.ReadValue()
		if err != nil {
			return nil
		}
		o = append(o, Member{name, turns.Raw(v[:len(v):len(v)])})
	}
	return o
}

func (o Object) Get(name string) turns.Raw {
	for _, m := range o {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

func (o Object) Text(name string) string { return String(o.Get(name)) }

// Without returns o without the named members.
func (o Object) Without(names ...string) Object {
	return slices.DeleteFunc(slices.Clone(o), func(m Member) bool { return slices.Contains(names, m.Name) })
}

func (o Object) Raw() turns.Raw {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, turns.RawText(m.Name)...), ':'), m.Value...)
	}
	return append(b, '}')
}

// Plural returns a count with its noun: 1 byte, 2 bytes.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// CountIs returns a count with its noun and verb: 1 byte is, 2 bytes are.
func CountIs(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return Plural(n, noun) + " are"
}

func Clipped(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// ToolName returns the name of a tool as the ledger can hold it: with _ for each control
// character, and cut to [turns.MaxName] bytes. A call whose name is changed so is still a
// call, to which its result belongs.
func ToolName(name string) string {
	s := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '_'
		}
		return r
	}, name)
	return strings.ToValidUTF8(Clipped(s, turns.MaxName), "")
}

// Unquoted is raw, or the JSON in it where an attribute holds JSON as text.
func Unquoted(raw turns.Raw) turns.Raw {
	if s, ok := raw.Text(); ok && len(s) > 1 && (s[0] == '[' || s[0] == '{') {
		var in turns.Raw
		if turns.DecodeJSON([]byte(s), &in) == nil {
			return in
		}
	}
	return raw
}

// maxMilli is where the times end that an id can hold, in milliseconds since 1970.
const maxMilli = 2e14

// ParseTime reads a time as RFC 3339 or as seconds, or milliseconds, since 1970;
// the zero Time where it is neither, and for what no event can hold: 1970 and before is what
// a clock says that was not set.
func ParseTime(raw turns.Raw) time.Time {
	s := Text(raw)
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		if ms := t.UnixMilli(); ms <= 0 || ms > maxMilli {
			return time.Time{}
		}
		return t.UTC()
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || f <= 0 || f > maxMilli:
		return time.Time{}
	case f > 1e11:
		return time.UnixMilli(int64(f)).UTC()
	}
	return time.UnixMilli(int64(f * 1000)).UTC()
}

// Decode reads JSON that others wrote: as strict as [turns.DecodeJSON] on
// the JSON itself, but members that v does not know are passed over.
func Decode(data []byte, v any) error {
	if !turns.IsSoundJSON(data) {
		var raw turns.Raw
		if err := turns.DecodeJSON(data, &raw); err != nil {
			return err
		}
	}
	err := json.Unmarshal(data, v)
	if err == nil || errors.Is(err, turns.ErrUnsupported) || errors.Is(err, turns.ErrMalformed) {
		return err
	}
	var odd *json.SemanticError
	if errors.As(err, &odd) && odd.JSONPointer != "" && odd.JSONKind != 0 {
		return fmt.Errorf("%w: %s is %s here", turns.ErrMalformed, odd.JSONPointer, kindName(odd.JSONKind))
	}
	return fmt.Errorf("%w: %w", turns.ErrMalformed, err)
}

// kindName returns the name of a kind of JSON value.
func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "true or false"
}

// LineTime is a time as the lines of transcripts have it.
func LineTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// IsTrue reports whether a value is true.
func IsTrue(r turns.Raw) bool { return string(r) == "true" }

func String(r turns.Raw) string { s, _ := r.Text(); return s }

// MaxMeta is how much of a conversation's other members is kept, in bytes.
const MaxMeta = 64 << 10
