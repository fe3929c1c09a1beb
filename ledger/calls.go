package ledger

import (
	"fmt"

	"nexus/turns"
)

// Calls is the list of tool calls that wait for their response at a point of
// a path, in the order in which they were made.
type Calls []string

// Turned is what one turn did to the calls before it.
type Turned struct {
	Open Calls    // waiting after the turn
	Late []string // answered in the turn though they were no longer open
	Left []string // open before, and moved on from: abandoned
}

// After folds a turn into the calls open at its parent. Results of parallel
// calls may come in several turns: a pending turn of results alone leaves the
// rest open. Anything else that goes on (other content, a response) abandons
// what is still open; rendering then supplies a marked response.
//
// made returns which of some ids have a call on the path to the parent; nil: all
// have. It is asked at most once, for the ids that neither were open nor are in
// the turn itself, each once. A response to a call that never was is
// [ErrMalformed], as a FieldError.
func (c Calls) After(ms []turns.Message, response *turns.Message, made func(ids []string) (map[string]bool, error)) (Turned, error) {
	f := folding{seen: make(map[string]bool), asked: make(map[string]string)}
	f.opened(c)
	for i := 0; i < len(ms); {
		// A run is what was sent between two assistant messages.
		goesOn := false
		start := i
		for ; i < len(ms) && (i == start || ms[i].Role != turns.Assistant) && ms[start].Role != turns.Assistant; i++ {
			for j := range ms[i].Parts {
				p := &ms[i].Parts[j]
				if p.Type != turns.ToolCallResponse {
					goesOn = true
					continue
				}
				f.answered(p.ID, i, j)
			}
		}
		if i == start { // an assistant message that came with the request
			f.movedOn()
			f.opened(ms[i].Calls(nil))
			i++
			continue
		}
		if goesOn {
			f.movedOn()
		}
	}
	if response != nil {
		f.movedOn()
		f.opened(response.Calls(nil))
	}
	if len(f.unknown) > 0 && made != nil {
		known, err := made(f.unknown)
		if err != nil {
			return Turned{}, err
		}
		for _, id := range f.unknown {
			if !known[id] {
				return Turned{}, &turns.FieldError{Field: f.asked[id], Reason: fmt.Sprintf("no call %q was made on this path", id), Kind: ErrMalformed}
			}
		}
	}
	return Turned{Open: f.waiting(), Late: f.late, Left: f.left}, nil
}

// folding is a turn being folded. A step costs the same however many calls are
// open: a turn may have a hundred thousand.
type folding struct {
	open    []string        // in order, those that were answered too
	wait    map[string]bool // those of open that were not
	seen    map[string]bool // ids open at the parent or since
	late    []string
	left    []string
	unknown []string          // late, and never open here
	asked   map[string]string // unknown id: the field that names it first
}

func (f *folding) opened(ids []string) {
	f.open, f.wait = ids, make(map[string]bool, len(ids))
	for _, id := range ids {
		f.wait[id], f.seen[id] = true, true
	}
}

func (f *folding) answered(id string, message, part int) {
	if f.wait[id] {
		delete(f.wait, id)
		return
	}
	f.late = append(f.late, id)
	if _, ok := f.asked[id]; !ok && !f.seen[id] {
		f.unknown = append(f.unknown, id)
		f.asked[id] = fmt.Sprintf("/messages/%d/parts/%d/id", message, part)
	}
}

// waiting is the calls that are open.
func (f *folding) waiting() (ids Calls) {
	for _, id := range f.open {
		if f.wait[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

func (f *folding) movedOn() {
	f.left = append(f.left, f.waiting()...)
	f.open, f.wait = nil, nil
}
