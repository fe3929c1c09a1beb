package render

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/shared"
)

// Memo is an earlier rendering. A rendering by its methods has the same bytes as one
// without it. Of a context that grew at its end it converts and encodes only the new
// messages. The zero Memo holds nothing. It shares memory with the contexts and the
// results of both renderings, which nobody may change any more. Safe for concurrent use.
type Memo struct {
	format   string
	messages []turns.Message             // what was rendered
	head     rendering                   // the messages of the format that stand before them
	body     rendering                   // the messages of the format that they became
	system   rendering                   // the system member, if the format has one
	otel     shared.List[jsontext.Value] // of OTel: messages as they are, in place of head and body
	points   []point                     // states of the conversion, the earliest first
}

// rendering is messages of a format with their JSON.
type rendering struct {
	wire []any // pointers
	json []jsontext.Value
}

// point is the state of a conversion after the first messages of a context.
type point struct {
	read  int       // how many messages were converted
	state converter // nobody changes it
}

// maxPoints bounds the points of a memo. The first is dropped when the second is pointSpan
// messages behind the last, so one is always so far behind.
const maxPoints, pointSpan = 3, 32

// converter converts exchanges to the messages of a format, one after the other.
type converter interface {
	exchange(x *exchange)
	// clone returns a copy. What is done to either does not change the other.
	clone() converter
	// end returns pointers to the messages.
	end() []any
}

// Memo returns the memo of r, if r was rendered by a method of [Memo]; the zero Memo if
// not.
func (r *Rendered) Memo() *Memo {
	if r.memo == nil {
		return new(Memo)
	}
	return r.memo
}

// render converts ms, with c or from the last point that e has of them, and encodes the
// messages. c has converted nothing. head returns the messages to put before the others.
func (e *Memo) render(format string, c converter, tools []turns.Raw, ms []turns.Message, head func(messages []any) []any) (Rendered, converter, error) {
	before, now := e.of(format), &Memo{format: format, messages: ms}
	read, same := 0, before.same(ms)
	for _, p := range before.points {
		if p.read <= same {
			now.points = append(now.points, p)
		}
	}
	if n := len(now.points); n > 0 {
		read, c = now.points[n-1].read, now.points[n-1].state.clone()
	}
	xs, err := exchanges(ms, read)
	if err != nil {
		return Rendered{}, nil, fmt.Errorf("render %s: %w", format, err)
	}
	for i := range xs {
		// A context changes at its end, and where a policy shortens what is no longer new.
		if first := xs[i].first; e != nil && first > read && (i == len(xs)-1 || i == len(xs)-16) {
			now.points = append(now.points, point{first, c.clone()})
		}
		c.exchange(&xs[i])
	}
	for n := len(now.points); n > maxPoints; n-- {
		drop := n - 2 // so that the second gets older
		if now.points[n-1].read-now.points[1].read >= pointSpan {
			drop = 0
		}
		now.points = slices.Delete(now.points, drop, drop+1)
	}
	messages := c.end()
	if now.head, err = before.head.encode(format, head(messages)); err != nil {
		return Rendered{}, nil, err
	}
	if now.body, err = before.body.encode(format, messages); err != nil {
		return Rendered{}, nil, err
	}
	all := make([]jsontext.Value, 0, len(now.head.json)+len(now.body.json))
	r := newRendered(tools, append(append(all, now.head.json...), now.body.json...))
	if e != nil {
		r.memo = now
	}
	return r, c, nil
}

// of returns e if it is a memo of the format, else an empty one.
func (e *Memo) of(format string) *Memo {
	if e == nil || e.format != format {
		return new(Memo)
	}
	return e
}

// same returns how many messages e and ms begin with in common.
func (e *Memo) same(ms []turns.Message) int { return turns.CommonMessages(e.messages, ms) }

// encode returns messages with their JSON. It encodes those that r has not at their index.
func (r *rendering) encode(format string, messages []any) (rendering, error) {
	out := rendering{wire: messages, json: make([]jsontext.Value, len(messages))}
	for i, m := range messages {
		if i < len(r.wire) && (r.wire[i] == m || reflect.DeepEqual(r.wire[i], m)) { // the same pointer, or what it points to
			out.json[i] = r.json[i]
			continue
		}
		var err error
		if out.json[i], err = turns.EncodeJSON(m); err != nil {
			return out, fmt.Errorf("render %s message %d: %w", format, i, err)
		}
	}
	return out, nil
}

// encodeSystem sets the system member of a rendering after e to what v points to. A large one is
// seldom another than before.
func (e *Memo) encodeSystem(r *Rendered, format string, v any) error {
	system, err := e.of(format).system.encode(format, []any{v})
	if err != nil {
		return err
	}
	if r.System = system.json[0]; r.memo != nil {
		r.memo.system = system
	}
	return nil
}

// pointers returns ps as values of any type.
func pointers[T any](ps []*T) []any {
	out := make([]any, len(ps))
	for i, p := range ps {
		out[i] = p
	}
	return out
}
