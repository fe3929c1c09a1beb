package interchange

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

// encoded returns v as JSON, nil if v can't be encoded. It is for values that were read
// from JSON.
func encoded(v any) turns.Raw {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		return nil
	}
	return b
}

// withUsage returns a meta object with the usage details of its turn, if there are any.
func withUsage(meta turns.Raw, d turns.UsageDetails) turns.Raw {
	if d == (turns.UsageDetails{}) {
		return meta
	}
	return append(membersOf(meta), jsonMember{"usage", encoded(d)}).raw()
}

// withTimeBound returns a meta object that says how the time of its turn was bounded; the
// zero bound leaves it as it is.
func withTimeBound(meta turns.Raw, b turns.TimeBound) turns.Raw {
	if b == "" {
		return meta
	}
	return append(membersOf(meta), jsonMember{"time_bound", turns.RawText(string(b))}).raw()
}

// withProgramMessages returns a meta object that says which messages of its turn a program
// wrote in the name of the user, by index.
func withProgramMessages(meta turns.Raw, at []int) turns.Raw {
	if len(at) == 0 {
		return meta
	}
	return append(membersOf(meta), jsonMember{"program_messages", encoded(at)}).raw()
}

// providerExt returns the Ext of a part: a value that only one provider may see. It
// returns nil if there is no value.
func providerExt(provider, member string, v turns.Raw) turns.Raw {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil
	}
	return encoded(map[string]map[string]turns.Raw{provider: {member: v}})
}

// argumentsOrEmpty returns v, the arguments of a call, and {} if there are none.
func argumentsOrEmpty(v turns.Raw) turns.Raw {
	if v == nil {
		return turns.Raw("{}")
	}
	return v
}

// nonNil returns ms, and an empty list for nil: JSON has a list in both cases.
func nonNil(ms []turns.Message) []turns.Message {
	if ms == nil {
		return []turns.Message{}
	}
	return ms
}

// orphanBegin begins the text before a tool result whose call was not read.
const orphanBegin = "[result of a tool call that is not in the transcript, id "

// orphanText returns the text before a tool result whose call was not read.
func orphanText(id string) string {
	return orphanBegin + strconv.Quote(id) + "]"
}

// jsonText returns the text of a JSON string, and any other value as its JSON.
func jsonText(raw turns.Raw) string {
	if s, ok := raw.Text(); ok {
		return s
	}
	return string(raw)
}

// jsonMember is one member of a JSON object, in its place.
type jsonMember struct {
	name string
	v    turns.Raw
}

type jsonObject []jsonMember

// membersOf returns the members of the object r, nil for another value.
func membersOf(r turns.Raw) jsonObject {
	if r.Kind() != '{' {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(r))
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	var o jsonObject
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
		o = append(o, jsonMember{name, turns.Raw(bytes.Clone(v))})
	}
	return o
}

func (o jsonObject) get(name string) turns.Raw {
	for _, m := range o {
		if m.name == name {
			return m.v
		}
	}
	return nil
}

func (o jsonObject) text(name string) string { return rawString(o.get(name)) }

// without returns o without the named members.
func (o jsonObject) without(names ...string) jsonObject {
	return slices.DeleteFunc(slices.Clone(o), func(m jsonMember) bool { return slices.Contains(names, m.name) })
}

func (o jsonObject) raw() turns.Raw {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, turns.RawText(m.name)...), ':'), m.v...)
	}
	return append(b, '}')
}

// plural returns a count with its noun: 1 byte, 2 bytes.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// countIs returns a count with its noun and verb: 1 byte is, 2 bytes are.
func countIs(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return plural(n, noun) + " are"
}

func clipped(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// heldName returns the name of a tool as the ledger can hold it: with _ for each control
// character, and cut to [turns.MaxName] bytes. A call whose name is changed so is still a
// call, to which its result belongs.
func heldName(name string) string {
	s := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '_'
		}
		return r
	}, name)
	return strings.ToValidUTF8(clipped(s, turns.MaxName), "")
}

// unquoted is raw, or the JSON in it where an attribute holds JSON as text.
func unquoted(raw turns.Raw) turns.Raw {
	if s, ok := raw.Text(); ok && len(s) > 1 && (s[0] == '[' || s[0] == '{') {
		var in turns.Raw
		if turns.DecodeJSON([]byte(s), &in) == nil {
			return in
		}
	}
	return raw
}

// parseTime reads a time as RFC 3339 or as seconds, or milliseconds, since 1970;
// the zero Time where it is neither.
func parseTime(raw turns.Raw) time.Time {
	s := jsonText(raw)
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t.UTC()
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || f <= 0 || f > 2e14: // an id's time ends before
		return time.Time{}
	case f > 1e11:
		return time.UnixMilli(int64(f)).UTC()
	}
	return time.UnixMilli(int64(f * 1000)).UTC()
}

// decodeLoose reads JSON that others wrote: as strict as [turns.DecodeJSON] on
// the JSON itself, but members that v does not know are passed over.
func decodeLoose(data []byte, v any) error {
	var raw turns.Raw
	if err := turns.DecodeJSON(data, &raw); err != nil {
		return err
	}
	err := json.Unmarshal(raw, v)
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

// lineTime is a time as the lines of transcripts have it.
func lineTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func rawString(r turns.Raw) string { s, _ := r.Text(); return s }

// maxMeta is how much of a conversation's other members is kept, in bytes.
const maxMeta = 64 << 10
