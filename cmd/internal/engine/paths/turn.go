package paths

import (
	"errors"
	"slices"
	"sync/atomic"

	"nexus/cmd/internal/engine/content"
	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// turn is a turn of a path, decoded once. Requests share it; nobody changes it.
type turn struct {
	event    *turns.Event // without its body
	preamble turns.Hash   // digest of the preamble of its call
	erased   bool         // a key of its body was destroyed
	halves   [2]*half     // its messages and its response; nil: it has none
}

// half is a half of a turn, without what depends on the path that it is on.
type half struct {
	summary.HalfTurn
	size, frame int  // bytes of its content, and about what it takes in memory beside
	refs        bool // parts have their content in blobs
	counts      atomic.Pointer[counts]
}

// counts are the tokens of the messages of a half by a counter.
type counts struct {
	counter string
	tokens  []uint64
}

// decodeTurn decodes the event of a turn. It opens the body of a normal turn.
func (pl *Loader) decodeTurn(payload []byte) (*turn, error) {
	ev, err := turns.Decode(payload)
	if err != nil {
		return nil, err
	}
	t := &turn{event: ev}
	if ev.Kind != turns.KindTurn {
		ev.Body = nil
		return t, nil
	}
	var b turns.TurnBody
	err = pl.content.Open(ev, &b)
	t.erased = errors.Is(err, turns.ErrErased)
	if err != nil && !t.erased {
		return nil, err
	}
	ev.Body, t.preamble = nil, b.Preamble
	if ev.Halves.Has(turns.MessagesHalf) {
		t.halves[0] = newHalf(t, turns.MessagesHalf, b.Model, b.Messages)
		t.halves[0].Tokens, t.halves[0].Pinned, t.halves[0].Program = ev.Tokens.Messages, isPinned(b.Meta), programMessages(b.Meta)
	}
	if ev.Halves.Has(turns.ResponseHalf) {
		var response []turns.Message
		if !t.erased {
			response = []turns.Message{*b.Response}
		}
		t.halves[1] = newHalf(t, turns.ResponseHalf, b.Model, response)
		t.halves[1].Tokens = ev.Tokens.Response
	}
	return t, nil
}

func newHalf(t *turn, which turns.Half, model string, ms []turns.Message) *half {
	h := &half{HalfTurn: summary.HalfTurn{Ref: t.event.Ref(), Depth: t.event.Depth, Half: which, Model: model, Messages: turns.Shown(ms), Erased: t.erased}}
	parts := content.MessageParts(h.Messages)
	h.refs = slices.ContainsFunc(parts, func(p *turns.Part) bool { return p.Ref != nil })
	h.size, h.frame = content.MessagesSize(h.Messages), halfBytes+partBytes*len(parts)
	return h
}

// bytes returns about how much memory t takes.
func (t *turn) bytes() int {
	const frame = 1 << 10 // of the event and of t
	n := frame
	for _, h := range t.halves {
		if h != nil {
			n += h.size + h.frame
		}
	}
	return n
}

// onPath returns h as a half of a path, with the tokens of each message by c. The
// messages of a half with content in blobs are the caller's own, to be filled.
func (h *half) onPath(c tokens.Counter) summary.HalfTurn {
	out := h.HalfTurn
	if h.refs {
		out.Messages = cloneMessages(h.Messages)
		return out
	}
	known := h.counts.Load()
	if known == nil || known.counter != c.Name() {
		known = &counts{counter: c.Name(), tokens: make([]uint64, len(h.Messages))}
		for i := range h.Messages {
			known.tokens[i] = c.Message(&h.Messages[i])
		}
		h.counts.Store(known)
	}
	out.Counts = known.tokens
	return out
}

// cloneMessages returns messages with parts of their own.
func cloneMessages(ms []turns.Message) []turns.Message {
	ms = slices.Clone(ms)
	for i := range ms {
		ms[i].Parts = slices.Clone(ms[i].Parts)
	}
	return ms
}
