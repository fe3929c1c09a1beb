package render

import (
	"errors"
	"fmt"

	"nexus/turns"
)

// ErrUnpaired says that a tool call has no result, or a result no call. No provider
// accepts such a context. The builder of a context completes the pairs, with a marked
// synthetic result for an abandoned call; a renderer adds none.
var ErrUnpaired = errors.New("tool calls and results do not pair")

// exchange is a part of a context that stays together in every format: a message of the
// assistant with the results of its calls, or a message to it.
type exchange struct {
	role    turns.Role // System, User or Assistant
	name    string
	parts   []*turns.Part // all but tool call responses
	calls   []*turns.Part // those of parts that are calls
	results []*turns.Part // same length and order as calls; nil: still open
	missing int           // results that are nil
	first   int           // the context's message that it begins with; 0 if calls were open there, and others continue an earlier exchange
}

// exchanges groups ms[from:]; no calls are open before it. A result goes to its call if it stands between the call and the
// next assistant message; other messages between them follow the results. An assistant
// message after one with unanswered calls joins it: some transcripts write parallel calls
// as one message each. Calls may be open at the end, with some results or none. It
// returns [ErrUnpaired] for anything else.
func exchanges(ms []turns.Message, from int) ([]exchange, error) {
	var xs []exchange
	open := -1 // the exchange whose calls lack results
	for i := from; i < len(ms); i++ {
		m, first := &ms[i], i
		if open >= 0 {
			first = 0
		}
		switch m.Role {
		case turns.Assistant:
			at := open
			if open < 0 {
				xs = append(xs, exchange{role: m.Role, name: m.Name, first: first})
				at = len(xs) - 1
			} else if open != len(xs)-1 || xs[open].missing != len(xs[open].calls) {
				return nil, unansweredError(&xs[open], i)
			}
			if err := xs[at].addAssistant(m, i); err != nil {
				return nil, err
			}
			if xs[at].missing > 0 {
				open = at
			}
		case turns.System, turns.User, turns.Tool:
			message := exchange{role: m.Role, name: m.Name, first: first}
			if m.Role == turns.Tool {
				message.role, message.name = turns.User, ""
			}
			for j := range m.Parts {
				p := &m.Parts[j]
				if p.Type != turns.ToolCallResponse {
					message.parts = append(message.parts, p)
					continue
				}
				if open < 0 || !xs[open].addResult(p) {
					return nil, fmt.Errorf("%w: message %d answers %q, which is no open call", ErrUnpaired, i, p.ID)
				}
				if xs[open].missing == 0 {
					open = -1
				}
			}
			if len(message.parts) > 0 {
				xs = append(xs, message)
			}
		default:
			return nil, fmt.Errorf("%w: message %d has the role %q", turns.ErrMalformed, i, m.Role)
		}
	}
	if open >= 0 && open != len(xs)-1 {
		return nil, unansweredError(&xs[open], len(ms))
	}
	return xs, nil
}

func unansweredError(x *exchange, at int) error {
	for i, r := range x.results {
		if r == nil {
			return fmt.Errorf("%w: call %q has no result before message %d", ErrUnpaired, x.calls[i].ID, at)
		}
	}
	return ErrUnpaired
}

func (x *exchange) addAssistant(m *turns.Message, at int) error {
	for j := range m.Parts {
		p := &m.Parts[j]
		switch p.Type {
		case turns.ToolCallResponse:
			return fmt.Errorf("%w: assistant message %d holds a result", ErrUnpaired, at)
		case turns.ToolCall:
			for _, c := range x.calls {
				if c.ID == p.ID {
					return fmt.Errorf("%w: two open calls %q up to message %d", ErrUnpaired, p.ID, at)
				}
			}
			x.calls = append(x.calls, p)
			x.results = append(x.results, nil)
			x.missing++
		}
		x.parts = append(x.parts, p)
	}
	return nil
}

func (x *exchange) addResult(p *turns.Part) bool {
	for i, c := range x.calls {
		if c.ID == p.ID && x.results[i] == nil {
			x.results[i] = p
			x.missing--
			return true
		}
	}
	return false
}
