package content

import (
	"context"
	"fmt"
	"slices"

	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/tokens"
)

// maxCountedBytes bounds the blobs that the parts of one event may refer to, in
// bytes: the attachments of a request and the largest message. No append exceeds it.
const maxCountedBytes = turns.MaxWhole + 64<<20

// CountError says that the header of an event counts other tokens than its body has.
type CountError struct{ Text string }

// Error returns the text of the error.
func (e *CountError) Error() string { return e.Text }

// CheckCounts counts the tokens of an event's body with the counter that its header
// names, and compares. The caller has checked the blobs with [Store.CheckBlobs]; k
// is the key of their tree.
//
// CheckCounts believes a counter that this build does not know, and package paths
// counts such turns again. It does not check how much the elisions of a compaction
// save, which depends on other events; no code subtracts that number unchecked.
//
// Errors: [*CountError]; those of [Store.ReadBlob]; ctx's.
func (cs *Store) CheckCounts(ctx context.Context, tenant string, k Tree, ev *turns.Event, body any) error {
	c, known := tokens.Named(ev.Tokens.Counter)
	if !known || ev.Kind == turns.KindRedacted { // the counts are those of the event that it is for
		return nil
	}
	size := uint64(0)
	for _, p := range BodyParts(body) {
		if p.Ref != nil && !p.InPieces() {
			if p.Ref.Size > maxCountedBytes-size {
				return &CountError{fmt.Sprintf("%s %s refers to more than %d bytes of blobs", ev.Kind, ev.ID, maxCountedBytes)}
			}
			size += p.Ref.Size
		}
	}
	count := func(what string, have uint64, groups ...[]turns.Message) error {
		var want uint64
		for _, ms := range groups {
			for i := range ms {
				n, err := cs.countMessage(ctx, tenant, k, c, ms[i])
				if err != nil {
					return err
				}
				want += n
			}
		}
		if have != want {
			return &CountError{fmt.Sprintf("the header of %s %s counts %d tokens of its %s by %s, its body has %d", ev.Kind, ev.ID, have, what, c.Name(), want)}
		}
		return nil
	}
	switch b := body.(type) {
	case *turns.TurnBody:
		if err := count("messages", ev.Tokens.Messages, b.Messages); err != nil {
			return err
		}
		var response []turns.Message
		if b.Response != nil {
			response = []turns.Message{*b.Response}
		}
		return count("response", ev.Tokens.Response, response)
	case *turns.CompactionBody:
		return count("replacement", ev.Tokens.Messages, b.Replacement, b.Nudge)
	}
	return nil
}

// countMessage counts one message, with the content of its blobs in place, and a notice
// in place of content in pieces.
func (cs *Store) countMessage(ctx context.Context, tenant string, k Tree, c tokens.Counter, m turns.Message) (uint64, error) {
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%w: count tokens: %w", ledger.ErrUnavailable, ctx.Err())
	}
	m = turns.Shown([]turns.Message{m})[0]
	m.Parts = slices.Clone(m.Parts)
	if err := cs.InlineParts(ctx, tenant, k, MessageParts([]turns.Message{m})); err != nil {
		return 0, err
	}
	return c.Message(&m), nil
}

// SaturatingAdd returns a + b, or the largest number if that overflows.
func SaturatingAdd(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}
