package compare

import (
	"nexus/turns"
	"nexus/turns/tokens"
)

// Turn is one turn of a transcript: what was newly sent and the model's response.
// Either may be missing. A turn with a response is one model call.
type Turn struct {
	Messages []turns.Message
	Response *turns.Message // nil: pending
}

// Transcript is one path of turns, prepared for replays. They do not change it, so
// any number may run at once.
type Transcript struct {
	turns    []Turn
	overhead uint64
	counter  counter
	facts    index
	calls    int
	source   Source
}

// New makes a transcript of a path, root first. overhead counts the tokens of system
// and tools in every call. The transcript keeps path and its memory.
func New(path []Turn, overhead uint64) *Transcript { return NewFrom(path, overhead, Source{}) }

// NewFrom is [New] for a transcript whose source tells what its own agent did.
func NewFrom(path []Turn, overhead uint64, src Source) *Transcript {
	t := &Transcript{turns: path, overhead: overhead, counter: counter{tokens.Approx{}, make(map[*turns.Part]count)}, source: src}
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

// Calls returns how many model calls a replay makes.
func (t *Transcript) Calls() int { return t.calls }

// Turns returns how many turns the transcript has.
func (t *Transcript) Turns() int { return len(t.turns) }

// Tokens returns the tokens of the whole path, system and tools included: those of
// its last context if nothing were compacted.
func (t *Transcript) Tokens() uint64 {
	n := t.overhead
	for at := range 2 * len(t.turns) {
		n += tokens.Messages(t.counter, t.messages(at))
	}
	return n
}

var halves = [...]turns.Half{turns.MessagesHalf, turns.ResponseHalf}

// place numbers the halves of a transcript: 2i for the messages of turn i, 2i + 1
// for its response. A missing half has a number too.
func place(turn int, half turns.Half) int {
	if half == turns.ResponseHalf {
		return 2*turn + 1
	}
	return 2 * turn
}

// messages returns the half at a place; nil if it is missing.
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

// counter remembers the counts of the transcript's messages, because a replay
// renders each many times.
type counter struct {
	tokens.Counter
	known map[*turns.Part]count // by the message's first part, which a rendered message shares with its half
}

type count struct {
	parts  int
	tokens uint64
}

// by returns a counter of the transcript's messages that counts with o.
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

// Message returns the count of m.
func (c counter) Message(m *turns.Message) uint64 {
	if len(m.Parts) > 0 {
		if k, ok := c.known[&m.Parts[0]]; ok && k.parts == len(m.Parts) {
			return k.tokens
		}
	}
	return c.Counter.Message(m)
}
