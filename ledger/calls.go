package ledger

import (
	"fmt"

	"nexus/turns"
)

// Calls is the list of tool calls that wait for their response at a point of
// a path, in the order in which they were made.
type Calls []string

// CallChanges is what one turn did to the calls before it.
type CallChanges struct {
	Open      Calls    // waiting after the turn
	Late      []string // answered in the turn though they were no longer open
	Abandoned []string // open before, and abandoned by the turn
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
func (c Calls) After(ms []turns.Message, response *turns.Message, made func(ids []string) (map[string]bool, error)) (CallChanges, error) {
	f := callFold{seen: make(map[string]bool), fields: make(map[string]string)}
	f.setOpen(c)
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
				f.resolve(p.ID, i, j)
			}
		}
		if i == start { // an assistant message that came with the request
			f.abandon()
			f.setOpen(ms[i].Calls(nil))
			i++
			continue
		}
		if goesOn {
			f.abandon()
		}
	}
	if response != nil {
		f.abandon()
		f.setOpen(response.Calls(nil))
	}
	if len(f.unknown) > 0 && made != nil {
		known, err := made(f.unknown)
		if err != nil {
			return CallChanges{}, err
		}
		for _, id := range f.unknown {
			if !known[id] {
				return CallChanges{}, &turns.FieldError{Field: f.fields[id], Reason: fmt.Sprintf("no call %q was made on this path", id), Kind: ErrMalformed}
			}
		}
	}
	return CallChanges{Open: f.waiting(), Late: f.late, Abandoned: f.abandoned}, nil
}

// callFold is a turn being folded. A step costs the same however many calls are
// open: a turn may have a hundred thousand.
type callFold struct {
	open      []string        // in order, those that were answered too
	wait      map[string]bool // those of open that were not
	seen      map[string]bool // ids open at the parent or since
	late      []string
	abandoned []string
	unknown   []string          // late, and never open here
	fields    map[string]string // unknown id: the field that names it first
}

func (f *callFold) setOpen(ids []string) {
	f.open, f.wait = ids, make(map[string]bool, len(ids))
	for _, id := range ids {
		f.wait[id], f.seen[id] = true, true
	}
}

func (f *callFold) resolve(id string, message, part int) {
	if f.wait[id] {
		delete(f.wait, id)
		return
	}
	f.late = append(f.late, id)
	if _, ok := f.fields[id]; !ok && !f.seen[id] {
		f.unknown = append(f.unknown, id)
		f.fields[id] = fmt.Sprintf("/messages/%d/parts/%d/id", message, part)
	}
}

// waiting is the calls that are open.
func (f *callFold) waiting() (ids Calls) {
	for _, id := range f.open {
		if f.wait[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

func (f *callFold) abandon() {
	f.abandoned = append(f.abandoned, f.waiting()...)
	f.open, f.wait = nil, nil
}
