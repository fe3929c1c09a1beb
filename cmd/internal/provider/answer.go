package provider

import (
	"errors"
	"fmt"
	"strings"

	"nexus/turns"
)

// maxParts bounds the parts of one answer.
const maxParts = 4096

// errStream says that a stream is none of its dialect.
var errStream = errors.New("the answer is not valid")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errStream}, args...)...)
}

// building is an answer while it comes. Its methods pass each piece on.
type building struct {
	emit  func(Event) error
	hold  func(bytes int) error // nil: nobody counts
	parts []*part
	most  int // bytes of all texts
	size  int
	ids   map[string]bool
}

// part is a part of an answer while it comes.
type part struct {
	index   int
	kind    turns.PartType
	id      string
	name    string
	text    strings.Builder
	summary []*strings.Builder
	ext     turns.Raw
	final   *turns.Part
}

// emitError is an error of who reads the answer.
type emitError struct{ err error }

func (e *emitError) Error() string { return e.err.Error() }

func (b *building) send(e Event) error {
	if err := b.emit(e); err != nil {
		return &emitError{err}
	}
	return nil
}

// begin begins a part. A call without an id, or with one that the answer has already, gets
// another, since results are assigned by it.
func (b *building) begin(kind turns.PartType, id, name string) (*part, error) {
	if len(b.parts) >= maxParts {
		return nil, broken("it has more than %d parts", maxParts)
	}
	p := &part{index: len(b.parts), kind: kind, id: id, name: name}
	if kind == turns.ToolCall {
		if name == "" || len(name) > turns.MaxName || len(id) > turns.MaxName {
			return nil, broken("a call has no name, or one that is too long")
		}
		for n := p.index; p.id == "" || b.ids[p.id]; n++ {
			p.id = fmt.Sprintf("call_%d", n)
		}
		if b.ids == nil {
			b.ids = make(map[string]bool)
		}
		b.ids[p.id] = true
	}
	b.parts = append(b.parts, p)
	return p, b.send(Event{Kind: Begin, Index: p.index, Type: kind, ID: p.id, Name: name})
}

func (b *building) grow(n int) error {
	if b.size += n; b.size > b.most {
		return errAnswer
	}
	return b.keep(n + n/4) // a text that grows has room to grow
}

// keep says that n more bytes are kept until the answer is whole.
func (b *building) keep(n int) error {
	if b.hold == nil {
		return nil
	}
	if err := b.hold(n); err != nil {
		return &emitError{err}
	}
	return nil
}

// add adds to the text of p. kind is Delta or RefusalDelta.
func (b *building) add(p *part, kind Kind, text string) error {
	if text == "" {
		return nil
	}
	if p.final != nil {
		return broken("part %d goes on after its end", p.index)
	}
	if err := b.grow(len(text)); err != nil {
		return err
	}
	p.text.WriteString(text)
	return b.send(Event{Kind: kind, Index: p.index, Type: p.kind, ID: p.id, Name: p.name, Text: text})
}

// addSummary adds to summary n of p. Summaries come one after the other.
func (b *building) addSummary(p *part, n int, text string) error {
	if p.kind != turns.Reasoning || p.final != nil || n < 0 || n > len(p.summary) || n >= maxParts {
		return broken("summary %d of a part that has %d", n, len(p.summary))
	}
	if err := b.grow(len(text)); err != nil {
		return err
	}
	if n == len(p.summary) {
		p.summary = append(p.summary, new(strings.Builder))
	}
	p.summary[n].WriteString(text)
	return b.send(Event{Kind: SummaryDelta, Index: p.index, Type: p.kind, Summary: n, Text: text})
}

// end ends p. Ending it twice does nothing.
func (b *building) end(p *part) error {
	if p.final != nil {
		return nil
	}
	f := &turns.Part{Type: p.kind, Ext: p.ext}
	switch p.kind {
	case turns.ToolCall:
		f.ID, f.Name, f.Arguments = p.id, p.name, arguments(p.text.String())
	case turns.Reasoning:
		if f.Content = p.text.String(); f.Content == "" {
			var all []string
			for _, s := range p.summary {
				all = append(all, s.String())
			}
			f.Content = strings.Join(all, "\n\n")
		}
	default:
		f.Content = p.text.String()
	}
	p.final = f
	return b.send(Event{Kind: End, Index: p.index, Type: p.kind, ID: p.id, Name: p.name, Part: f})
}

// arguments are those of a call as JSON. Text that is none becomes a JSON string: the agent
// that gets the call is the one who can tell the model so.
func arguments(text string) turns.Raw {
	if strings.TrimSpace(text) == "" {
		return turns.Raw("{}")
	}
	var raw turns.Raw
	if turns.DecodeJSON([]byte(text), &raw) == nil {
		return raw
	}
	return turns.RawText(text)
}

// finish ends what is open, and returns the message. An answer without parts is an empty
// text: a message has one.
func (b *building) finish(reason string) (turns.Message, error) {
	m := turns.Message{Role: turns.Assistant, FinishReason: reason}
	if len(b.parts) == 0 {
		if _, err := b.begin(turns.Text, "", ""); err != nil {
			return m, err
		}
	}
	for _, p := range b.parts {
		if err := b.end(p); err != nil {
			return m, err
		}
		if p.kind == turns.ToolCall && reason == "stop" {
			m.FinishReason = "tool_call"
		}
		m.Parts = append(m.Parts, *p.final)
	}
	if err := m.Validate("/answer"); err != nil {
		return m, broken("%w", err)
	}
	return m, nil
}
