package ledger

import (
	"fmt"
	"slices"

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
// known reports whether a call that is not open was made anywhere on the path;
// it is asked only for those. A response to a call that never was is
// [ErrMalformed], as a FieldError.
func (c Calls) After(ms []turns.Message, response *turns.Message, known func(id string) (bool, error)) (Turned, error) {
	t := Turned{Open: slices.Clone(c)}
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
				if err := t.answer(p.ID, fmt.Sprintf("/messages/%d/parts/%d/id", i, j), known); err != nil {
					return Turned{}, err
				}
			}
		}
		if i == start { // an assistant message that came with the request
			t.move()
			t.Open = ms[i].Calls(nil)
			i++
			continue
		}
		if goesOn {
			t.move()
		}
	}
	if response != nil {
		t.move()
		t.Open = response.Calls(nil)
	}
	return t, nil
}

func (t *Turned) answer(id, field string, known func(string) (bool, error)) error {
	if k := slices.Index(t.Open, id); k >= 0 {
		t.Open = slices.Delete(t.Open, k, k+1)
		return nil
	}
	if !slices.Contains(t.Left, id) {
		ok, err := known(id)
		if err != nil {
			return err
		}
		if !ok {
			return &turns.FieldError{Field: field, Reason: fmt.Sprintf("no call %q was made on this path", id), Kind: ErrMalformed}
		}
	}
	t.Late = append(t.Late, id)
	return nil
}

func (t *Turned) move() {
	t.Left = append(t.Left, t.Open...)
	t.Open = nil
}
