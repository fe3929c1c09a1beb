package api

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// A context is the largest reply, and it is asked for before each call. Its messages are
// encoded already, so its JSON is put together without reading them again, and taken apart
// without checking them.

const (
	messagesBegin = `{"messages":[`
	sourcesBegin  = `"sources":[`
	noSystem      = `"system":null`
)

// AppendJSON appends what [turns.EncodeJSON] returns for c to out. It copies Messages and System
// as they are, which must be in the form that EncodeJSON writes.
func (c *Context) AppendJSON(out []byte) ([]byte, error) {
	rest := *c
	rest.Messages, rest.Sources, rest.System = nil, nil, nil
	b, err := turns.EncodeJSON(&rest)
	if err != nil {
		return out, err
	}
	sources := memberOf(b, sourcesBegin)
	system := memberOf(b, noSystem)
	if !bytes.HasPrefix(b, []byte(messagesBegin)) || sources < 0 || system < 0 || system > sources {
		return out, fmt.Errorf("encode a context: %.20q does not begin with messages, or has no sources and no system part before them", b)
	}
	size := len(b) + len(c.System)
	for _, m := range c.Messages {
		size += len(m) + 1
	}
	const sourceBytes = 128
	out = append(slices.Grow(out, size+sourceBytes*len(c.Sources)), messagesBegin...)
	for i, m := range c.Messages {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m...)
	}
	out = append(out, b[len(messagesBegin):system]...)
	if c.System != nil {
		out = append(out[:len(out)-len("null")], c.System...)
	}
	out = append(out, b[system:sources]...)
	for i := range c.Sources {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = c.Sources[i].appendJSON(out); err != nil {
			return out, err
		}
	}
	return append(out, b[sources:]...), nil
}

// appendJSON appends what [turns.EncodeJSON] returns for s.
func (s *Source) appendJSON(to []byte) (_ []byte, err error) {
	to = append(to, '{')
	to = appendID(to, `"turn":"`, s.Turn)
	to = appendID(to, `"session":"`, s.Session)
	to = appendID(to, `"memory":"`, s.Memory)
	if to, err = appendWord(append(to, `"half":`...), s.Half); err != nil {
		return to, err
	}
	if to, err = appendWord(append(to, `,"status":`...), s.Status); err != nil {
		return to, err
	}
	to = strconv.AppendUint(append(to, `,"tokens":`...), s.Tokens, 10)
	if s.Why != "" {
		if to, err = jsontext.AppendQuote(append(to, `,"why":`...), s.Why); err != nil {
			return to, err
		}
	}
	if s.Messages > 0 {
		to = strconv.AppendUint(append(to, `,"messages":`...), s.Messages, 10)
	}
	return append(to, '}'), nil
}

// appendID appends an id as a member, if it is one.
func appendID(to []byte, member string, id turns.ID) []byte {
	if id.IsZero() {
		return to
	}
	to, _ = id.AppendText(append(to, member...)) // it fails for a buffer of another size only
	return append(to, `",`...)
}

// appendWord appends a string that most often is a word of small letters.
func appendWord(to []byte, word string) ([]byte, error) {
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return jsontext.AppendQuote(to, word)
		}
	}
	return append(append(append(to, '"'), word...), '"'), nil
}

// DecodeContext reads the reply of context.get. The messages keep b. It checks where they
// end, and not what is in them.
func DecodeContext(b []byte, c *Context) error {
	messages, end, ok := elementsAt(b, len(messagesBegin))
	if !ok || !bytes.HasPrefix(b, []byte(messagesBegin)) {
		return UnmarshalLenient(b, c)
	}
	rest := append([]byte(messagesBegin), b[end:]...)
	if at := memberOf(rest, sourcesBegin); at > 0 {
		if sources, end, ok := decodeSources(rest, at); ok {
			if err := UnmarshalLenient(append(rest[:at:at], rest[end:]...), c); err != nil {
				return err
			}
			c.Messages, c.Sources = messages, sources
			return nil
		}
	}
	if err := UnmarshalLenient(rest, c); err != nil {
		return err
	}
	c.Messages = messages
	return nil
}

// decodeSources reads the sources whose list begins before b[at], and returns where they
// end. ok is false if they are not as [Source.appendJSON] writes them.
func decodeSources(b []byte, at int) (out []Source, end int, ok bool) {
	elements, end, ok := elementsAt(b, at)
	if !ok {
		return nil, 0, false
	}
	out = make([]Source, len(elements))
	for i, e := range elements {
		if !out[i].parse(e) {
			if UnmarshalLenient(e, &out[i]) != nil {
				return nil, 0, false
			}
		}
	}
	return out, end, true
}

// parse reads a source without a session and a why, as [Source.appendJSON] writes it.
func (s *Source) parse(b []byte) (ok bool) {
	word := func(before, after string) (w string) {
		if !ok {
			return ""
		}
		if b, ok = bytes.CutPrefix(b, []byte(before)); !ok {
			return ""
		}
		n := bytes.Index(b, []byte(after))
		if ok = n >= 0 && bytes.IndexByte(b[:max(n, 0)], '\\') < 0; !ok {
			return ""
		}
		w, b = string(b[:n]), b[n+len(after):]
		return w
	}
	ok = true
	id := word(`{"turn":"`, `",`)
	half := word(`"half":"`, `",`)
	status := word(`"status":"`, `",`)
	tokens := word(`"tokens":`, `}`)
	if !ok || len(b) > 0 {
		return false
	}
	n, err := strconv.ParseUint(tokens, 10, 64)
	if err != nil || s.Turn.UnmarshalText([]byte(id)) != nil {
		return false
	}
	s.Half, s.Status, s.Tokens = half, status, n
	return true
}

// memberOf returns the index after the text member in the object b, −1 if b has no such
// member at its top.
func memberOf(b []byte, member string) int {
	for i := 1; i < len(b); {
		if bytes.HasPrefix(b[i:], []byte(member)) {
			return i + len(member)
		}
		end, ok := turns.ValueEnd(b, i) // the name
		if !ok || end >= len(b) || b[end] != ':' {
			return -1
		}
		if end, ok = turns.ValueEnd(b, end+1); !ok || end >= len(b) || b[end] != ',' {
			return -1
		}
		i = end + 1
	}
	return -1
}

// elementsAt returns the elements of the list whose first one begins at b[i], and the
// index of its closing bracket. The elements share memory with b.
func elementsAt(b []byte, i int) (out []turns.Raw, end int, ok bool) {
	if i < len(b) && b[i] == ']' {
		return []turns.Raw{}, i, true
	}
	for {
		end, ok := turns.ValueEnd(b, i)
		if !ok || end >= len(b) {
			return nil, 0, false
		}
		out = append(out, turns.Raw(b[i:end:end]))
		switch b[end] {
		case ']':
			return out, end, true
		case ',':
			i = end + 1
		default:
			return nil, 0, false
		}
	}
}
