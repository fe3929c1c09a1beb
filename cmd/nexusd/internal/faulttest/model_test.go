package faulttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model of one session. A turn is a small number, given when its append was sent; 0 stands
// for the place before the first turn.

type opKind int

const (
	appendAfter opKind = iota // turn.append with a parent: compare-and-set
	appendHead                // turn.append without a parent
	moveHead                  // session.move, with if_head unless it is 0
	forkAt                    // fork.create: it changes nothing of this session
	listTurns                 // turn.list, newest first
	getSession                // session.get
	getTurn                   // turn.get, also of a turn that may not be stored
)

var opNames = []string{"append after", "append", "move", "fork", "list", "get", "get turn"}

// operation is what a client asks for. turn is the turn that is appended, or that is looked for;
// other is the parent that it names, or if_head.
type operation struct {
	kind        opKind
	turn, other int
}

type outcome int

const (
	done     outcome = iota
	refused          // conflict: head is what the error names
	missing          // not_found
	notKnown         // indeterminate: carried out at any time from the call on, or never
)

// answered is what the client got. head is the parent of an appended turn, the head of a session,
// or the one that a conflict names.
type answered struct {
	outcome outcome
	head    int
	depth   int
	list    string // the newest turns from the head on, a byte each
}

// listLimit is how many turns a list asks for; turnLimit how many a session of the run gets.
const listLimit, turnLimit = 20, 200

// sessionState is comparable: parents has a byte for each turn that is stored, its parent + 1.
type sessionState struct {
	head    int
	parents string
}

func (s sessionState) stored(turn int) bool {
	return turn == 0 || turn < len(s.parents) && s.parents[turn] > 0
}

func (s sessionState) depth(turn int) (n int) {
	for ; turn != 0; turn = int(s.parents[turn]) - 1 {
		n++
	}
	return n
}

func (s sessionState) path() string {
	var out []byte
	for turn := s.head; turn != 0 && len(out) < listLimit; turn = int(s.parents[turn]) - 1 {
		out = append(out, byte(turn))
	}
	return string(out)
}

func (s sessionState) with(turn int) sessionState {
	b := append([]byte(s.parents), make([]byte, max(0, turn+1-len(s.parents)))...)
	b[turn] = byte(s.head + 1)
	return sessionState{turn, string(b)}
}

// step says whether a session in state s may answer a to op, and what its state is then.
//
// An operation whose outcome is not known has an effect where it is legal. One that was never
// carried out comes last in the order: nothing that was seen follows it.
func (s sessionState) step(op operation, a answered) (bool, sessionState) {
	switch op.kind {
	case appendAfter, appendHead:
		may := !s.stored(op.turn) && (op.kind == appendHead || s.head == op.other)
		switch a.outcome {
		case done:
			return may && a.head == s.head && a.depth == s.depth(s.head)+1, s.with(op.turn)
		case refused:
			return op.kind == appendAfter && s.head != op.other && a.head == s.head, s
		case notKnown:
			if may {
				return true, s.with(op.turn)
			}
			return true, s
		}
	case moveHead:
		may := s.stored(op.turn) && (op.other == 0 || s.head == op.other)
		moved := sessionState{op.turn, s.parents}
		switch a.outcome {
		case done:
			return may, moved // the session in the reply may be of a later moment: it is an operation of its own
		case refused:
			return op.other != 0 && s.head != op.other && a.head == s.head, s
		case missing:
			return !s.stored(op.turn), s
		case notKnown:
			if may {
				return true, moved
			}
			return true, s
		}
	case forkAt, getTurn:
		return a.outcome == notKnown || (a.outcome == done) == s.stored(op.turn), s
	case listTurns:
		return a.outcome == done && a.list == s.path(), s
	case getSession:
		return a.outcome == done && a.head == s.head && a.depth == s.depth(s.head), s
	}
	return false, s
}

var sessionModel = porcupine.Model{
	Init: func() any { return sessionState{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(sessionState).step(input.(operation), output.(answered))
	},
	Equal: func(a, b any) bool { return a == b },
}

// never is when an operation ends whose outcome is not known.
const never = int64(1) << 62

// describe prints a history, a line an operation, by the time of the calls.
func describe(history []porcupine.Operation) string {
	var b strings.Builder
	for _, o := range slices.SortedFunc(slices.Values(history), func(x, y porcupine.Operation) int { return int(x.Call - y.Call) }) {
		in, out := o.Input.(operation), o.Output.(answered)
		end := fmt.Sprint(time.Duration(o.Return).Round(time.Microsecond))
		if o.Return == never {
			end = "never"
		}
		fmt.Fprintf(&b, "%v to %s: client %d: %s turn %d, other %d: outcome %d, head %d, depth %d, list %v\n",
			time.Duration(o.Call).Round(time.Microsecond), end, o.ClientId, opNames[in.kind], in.turn, in.other, out.outcome, out.head, out.depth, []byte(out.list))
	}
	return b.String()
}

// The checker accepts what the contract promises, and finds each kind of broken history.
func TestTheModelOfASessionFindsBrokenHistories(t *testing.T) {
	at := func(from, to int64, in operation, out answered) porcupine.Operation {
		return porcupine.Operation{Call: from, Return: to, Input: in, Output: out}
	}
	first := at(1, 2, operation{appendHead, 1, 0}, answered{head: 0, depth: 1})
	second := at(3, 4, operation{appendAfter, 2, 1}, answered{head: 1, depth: 2})
	lost := at(3, never, operation{appendAfter, 2, 1}, answered{outcome: notKnown})
	list := func(from, to int64, turns ...byte) porcupine.Operation {
		return at(from, to, operation{kind: listTurns}, answered{list: string(turns)})
	}
	for _, tc := range []struct {
		name    string
		history []porcupine.Operation
		legal   bool
	}{
		{"a chain and a read", []porcupine.Operation{first, second, list(5, 6, 2, 1)}, true},
		{"a read beside an append may see either", []porcupine.Operation{first, second, list(3, 6, 1), list(3, 6, 2, 1)}, true},
		{"an acknowledged turn is lost", []porcupine.Operation{first, second, list(5, 6, 1)}, false},
		{"a read goes back in time", []porcupine.Operation{first, at(3, 9, second.Input.(operation), second.Output.(answered)), list(4, 5, 2, 1), list(6, 7, 1)}, false},
		{"two appends after one parent", []porcupine.Operation{first, second, at(3, 5, operation{appendAfter, 3, 1}, answered{head: 1, depth: 2})}, false},
		{"one of two appends is a conflict", []porcupine.Operation{first, second, at(3, 5, operation{appendAfter, 3, 1}, answered{outcome: refused, head: 2})}, true},
		{"a conflict that names another head", []porcupine.Operation{first, second, at(3, 5, operation{appendAfter, 3, 1}, answered{outcome: refused, head: 1})}, false},
		{"a conflict though nothing moved", []porcupine.Operation{first, at(3, 5, operation{appendAfter, 3, 1}, answered{outcome: refused, head: 1})}, false},
		{"an unknown append that was carried out later", []porcupine.Operation{first, lost, list(5, 6, 1), list(7, 8, 2, 1)}, true},
		{"an unknown append that never was", []porcupine.Operation{first, lost, list(5, 6, 1), at(7, 8, operation{appendAfter, 3, 1}, answered{head: 1, depth: 2}), list(9, 10, 3, 1)}, true},
		{"an unknown append that is seen and then is not", []porcupine.Operation{first, lost, list(5, 6, 2, 1), list(7, 8, 1)}, false},
		{"an unknown append that is carried out twice", []porcupine.Operation{first, lost, list(5, 6, 2, 2, 1)}, false},
		{"a turn that nobody appended", []porcupine.Operation{first, list(5, 6, 7, 1)}, false},
		{"turns in another order", []porcupine.Operation{first, second, list(5, 6, 1, 2)}, false},
		{"a move back, and a branch", []porcupine.Operation{first, second, at(5, 6, operation{moveHead, 1, 2}, answered{head: 1, depth: 1}),
			at(7, 8, operation{appendAfter, 3, 1}, answered{head: 1, depth: 2}), list(9, 10, 3, 1)}, true},
		{"a move that a later read does not show", []porcupine.Operation{first, second, at(5, 6, operation{moveHead, 1, 2}, answered{head: 1, depth: 1}), list(7, 8, 2, 1)}, false},
		{"a move from a head that was none", []porcupine.Operation{first, second, at(5, 6, operation{moveHead, 1, 1}, answered{head: 1, depth: 1})}, false},
		{"a refused append that is carried out later", []porcupine.Operation{first, second, at(3, 5, operation{appendAfter, 3, 1}, answered{outcome: refused, head: 2}),
			at(6, 7, operation{moveHead, 1, 2}, answered{}), list(8, 9, 3, 1)}, false},
		{"a fork at a turn", []porcupine.Operation{first, at(3, 4, operation{forkAt, 1, 0}, answered{})}, true},
		{"a fork at a turn that is not stored", []porcupine.Operation{first, at(3, 4, operation{forkAt, 2, 0}, answered{})}, false},
		{"a turn that is stored is not found", []porcupine.Operation{first, at(3, 4, operation{getTurn, 1, 0}, answered{outcome: missing})}, false},
		{"a session's head and depth", []porcupine.Operation{first, second, at(5, 6, operation{kind: getSession}, answered{head: 2, depth: 2})}, true},
		{"a session's head is old", []porcupine.Operation{first, second, at(5, 6, operation{kind: getSession}, answered{head: 1, depth: 1})}, false},
	} {
		if got := porcupine.CheckOperations(sessionModel, tc.history); got != tc.legal {
			t.Errorf("%s: legal is %v, want %v\n%s", tc.name, got, tc.legal, describe(tc.history))
		}
	}
}
