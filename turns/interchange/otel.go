package interchange

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// Rendered is a context in the request form of one provider. Each message is separate, so
// that a caller can page by message. The caller owns the slices. The bytes depend only on
// the arguments: the same context renders to the same bytes on any daemon,
// and a context that grew at its end renders to a list with the same
// beginning, but for what joins or trims its last message ([Anthropic],
// [Gemini]).
type Rendered struct {
	// System is the request's system member where the format has one; nil
	// where system text is part of Messages, or where there is none.
	System jsontext.Value `json:"system,omitzero"`
	// Tools are the tool definitions as they were given. Each provider has a
	// form of its own; the ledger keeps the agent's and converts none.
	Tools    []jsontext.Value `json:"tools,omitempty"`
	Messages []jsontext.Value `json:"messages"`

	memo *Memo // of an earlier rendering; nil: the caller has none
	wire []any // of Messages, with memo
}

// OTel renders the ledger's own JSON, the shape of the OpenTelemetry GenAI
// message schema: every part as it is, ext and refs included. System is a list
// of {name, content}. Pairs are not checked: this form also shows
// history.
func OTel(system []turns.Section, tools []turns.Raw, ms []turns.Message) (Rendered, error) {
	return (*Memo)(nil).OTel(system, tools, ms)
}

// OTel is [OTel] after the rendering of e.
func (e *Memo) OTel(system []turns.Section, tools []turns.Raw, ms []turns.Message) (Rendered, error) {
	r := e.newRendered(tools, len(ms))
	if len(system) > 0 {
		v, err := turns.EncodeJSON(system)
		if err != nil {
			return Rendered{}, fmt.Errorf("render otel system: %w", err)
		}
		r.System = v
	}
	for i := range ms {
		if err := r.add("otel", &ms[i]); err != nil {
			return Rendered{}, err
		}
	}
	return r, nil
}

func (e *Memo) newRendered(tools []turns.Raw, n int) Rendered {
	r := Rendered{Messages: make([]jsontext.Value, 0, n), memo: e}
	for _, t := range tools {
		r.Tools = append(r.Tools, jsontext.Value(t))
	}
	return r
}

func (r *Rendered) add(format string, m any) error {
	if r.memo != nil {
		r.wire = append(r.wire, m)
		if v, ok := r.memo.find(len(r.Messages), m); ok {
			r.Messages = append(r.Messages, v)
			return nil
		}
	}
	v, err := turns.EncodeJSON(m)
	if err != nil {
		return fmt.Errorf("render %s message %d: %w", format, len(r.Messages), err)
	}
	r.Messages = append(r.Messages, v)
	return nil
}
