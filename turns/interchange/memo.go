package interchange

import (
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// Memo is the messages of an earlier rendering with their JSON. A rendering by its
// methods has the same bytes as one without it, and encodes only the messages that
// differ from those of the memo at their index: of a context that grew at its end,
// only the new ones. The zero Memo holds no message. It shares memory with the
// contexts and the results of both renderings, which nobody may change any more. Safe
// for concurrent use.
type Memo struct {
	wire []any // the messages before they were encoded
	json []jsontext.Value
}

// Memo returns the memo of r, if r was rendered by a method of [Memo]; the zero Memo if
// not.
func (r *Rendered) Memo() *Memo {
	if r.memo == nil {
		return new(Memo)
	}
	return &Memo{wire: r.wire, json: r.Messages}
}

// find returns the JSON of message i, if that is message m.
func (e *Memo) find(i int, m any) (v jsontext.Value, ok bool) {
	if i >= len(e.wire) {
		return nil, false
	}
	if own, is := m.(*turns.Message); is {
		before, is := e.wire[i].(*turns.Message)
		return e.json[i], is && before.SameAs(own)
	}
	return e.json[i], reflect.DeepEqual(e.wire[i], m)
}
