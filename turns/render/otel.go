package render

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/shared"
)

// Rendered is a context in the request form of one provider. Each message is separate, so
// that a caller can page by message. The slices may be a [Memo]'s: who adds to them gets
// others, and nobody changes what they have. The bytes depend only on
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

	memo *Memo // of this rendering, if a method of Memo made it
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
	before := e.of("otel")
	same := before.same(ms)
	values := before.otel.First(same, len(ms))
	for i := same; i < len(ms); i++ {
		if i < len(before.messages) && before.messages[i].SameAs(&ms[i]) {
			values = append(values, before.otel.Items()[i])
			continue
		}
		value, err := turns.EncodeJSON(&ms[i])
		if err != nil {
			return Rendered{}, fmt.Errorf("render otel message %d: %w", i, err)
		}
		values = append(values, value)
	}
	r := newRendered(tools, slices.Clip(values))
	if e != nil {
		r.memo = &Memo{format: "otel", messages: ms, otel: shared.Of(values)}
	}
	if len(system) == 0 {
		return r, nil
	}
	if err := e.encodeSystem(&r, "otel", &system); err != nil {
		return Rendered{}, fmt.Errorf("render otel system: %w", err)
	}
	return r, nil
}

func newRendered(tools []turns.Raw, messages []jsontext.Value) Rendered {
	r := Rendered{Messages: messages}
	for _, t := range tools {
		r.Tools = append(r.Tools, jsontext.Value(t))
	}
	return r
}
