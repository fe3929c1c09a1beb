// Package compare replays a transcript through compaction policies and says
// what each would have cost and kept. It calls no model: what the agent said
// in the transcript is what it says in every replay.
package compare

import (
	"nexus/turns"
	"nexus/turns/tokens"
)

// Turn is one turn of a transcript: what was newly sent, and what the model
// said to it. Either may be missing; a turn with a response is one model call.
type Turn struct {
	Messages []turns.Message
	Response *turns.Message // nil: pending
}

// Transcript is one path of turns, made ready for replays. It is not changed
// by them: any number may run at once.
type Transcript struct {
	turns    []Turn
	overhead uint64
	counter  counter
	facts    index
	calls    int
}

// New makes a transcript of a path, root first. Overhead is the tokens of
// system and tools, which stand before the messages of every call. It keeps
// path and what that points to.
func New(path []Turn, overhead uint64) *Transcript {
	t := &Transcript{turns: path, overhead: overhead, counter: counter{tokens.Approx{}, make(map[*turns.Part]count)}}
	for i := range path {
		if path[i].Response != nil {
			t.calls++
		}
		for _, half := range halves {
			for _, m := range t.messages(place(i, half)) {
				t.counter.know(&m)
			}
		}
	}
	t.facts = newIndex(t)
	return t
}

// Calls is how many model calls a replay makes.
func (t *Transcript) Calls() int { return t.calls }

// Turns is how many turns the transcript has.
func (t *Transcript) Turns() int { return len(t.turns) }

// Tokens is the tokens of the whole path, system and tools included: what its
// last context would have with no compaction.
func (t *Transcript) Tokens() uint64 {
	n := t.overhead
	for at := range 2 * len(t.turns) {
		n += tokens.Messages(t.counter, t.messages(at))
	}
	return n
}

var halves = [...]turns.Half{turns.MessagesHalf, turns.ResponseHalf}

// place numbers the halves of a transcript: 2i for the messages of turn i,
// 2i + 1 for its response, whether they are there or not.
func place(turn int, half turns.Half) int {
	if half == turns.ResponseHalf {
		return 2*turn + 1
	}
	return 2 * turn
}

// messages is the half at a place; none where it is missing.
func (t *Transcript) messages(at int) []turns.Message {
	turn := &t.turns[at/2]
	switch {
	case at%2 == 0:
		return turn.Messages
	case turn.Response != nil:
		return []turns.Message{*turn.Response}
	}
	return nil
}

// counter is a counter that remembers the messages of the transcript: a replay
// renders each of them many times.
type counter struct {
	tokens.Counter
	known map[*turns.Part]count // by the first part; a rendered message shares it with its half
}

type count struct {
	parts  int
	tokens uint64
}

// by is the messages of the transcript, counted by another counter.
func (t *Transcript) by(o tokens.Counter) counter {
	if o.Name() == t.counter.Name() {
		return t.counter
	}
	c := counter{Counter: o, known: make(map[*turns.Part]count)}
	for at := range 2 * len(t.turns) {
		for _, m := range t.messages(at) {
			c.know(&m)
		}
	}
	return c
}

func (c counter) know(m *turns.Message) {
	if len(m.Parts) > 0 {
		c.known[&m.Parts[0]] = count{len(m.Parts), c.Counter.Message(m)}
	}
}

// Message is what the counter says of m.
func (c counter) Message(m *turns.Message) uint64 {
	if len(m.Parts) > 0 {
		if k, ok := c.known[&m.Parts[0]]; ok && k.parts == len(m.Parts) {
			return k.tokens
		}
	}
	return c.Counter.Message(m)
}
