package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// How far back the call of a late response is looked for. Where calls were made
// is in no index: their ids are inside of sealed bodies.
const (
	lookBackTurns = 4096
	lookBackBytes = 64 << 20 // of content
)

// madeCalls tells which calls were made on a path. It reads the path's
// content, newest first, once for all ids, and so is for the rare response that
// answers no open call. It remembers what it found, for one request: a decision
// may be taken twice on one head.
type madeCalls struct {
	e     *Engine
	head  turns.Ref
	asked []string
	found map[string]bool
}

// on returns which of ids have a call on the path to head. What is not found
// within the bounds is an ErrMalformed where the path goes on above them.
func (m *madeCalls) on(ctx context.Context, head lineage.Node, ids []string) (map[string]bool, error) {
	if m.found != nil && m.head == head.Ref && slices.Equal(m.asked, ids) {
		return m.found, nil
	}
	found, err := m.e.callsOn(ctx, head, ids)
	if err == nil {
		m.head, m.asked, m.found = head.Ref, slices.Clone(ids), found
	}
	return found, err
}

func (e *Engine) callsOn(ctx context.Context, head lineage.Node, ids []string) (map[string]bool, error) {
	wanted, found := make(map[string]bool, len(ids)), make(map[string]bool)
	for _, id := range ids {
		wanted[id] = true
	}
	if head.Ref.IsZero() {
		return found, nil
	}
	lowest := uint64(1)
	if head.Depth > lookBackTurns {
		lowest = head.Depth - lookBackTurns + 1
	}
	ranges, err := lineage.Segments(e.Store, head, lowest)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, r := range slices.Backward(ranges) {
		for hi := r.Hi; hi >= r.Lo; {
			const atOnce = 64
			lo := r.Lo
			if hi-r.Lo >= atOnce {
				lo = hi - atOnce + 1
			}
			n, err := e.callsIn(ctx, lineage.Range{Session: r.Session, Segment: r.Segment, Lo: lo, Hi: hi}, wanted, found)
			if err != nil {
				return nil, err
			}
			if len(found) == len(wanted) {
				return found, nil
			}
			if size += n; size > lookBackBytes {
				return nil, notLately()
			}
			hi = lo - 1
		}
	}
	if lowest > 1 {
		return nil, notLately()
	}
	return found, nil
}

func notLately() error {
	return fieldErr("/messages", "a response to a call that is not among the last %d turns or %d bytes of the path: it is too late", lookBackTurns, lookBackBytes)
}

// callsIn adds to found what a stretch has of wanted, and returns the bytes of
// content that it read.
func (e *Engine) callsIn(ctx context.Context, r lineage.Range, wanted, found map[string]bool) (size int, err error) {
	for payload, err := range e.Store.Range(r) {
		if err != nil {
			return size, err
		}
		if ctx.Err() != nil {
			return size, fmt.Errorf("%w: looked for calls: %w", ledger.ErrUnavailable, ctx.Err())
		}
		ev, err := turns.Decode(payload)
		if err != nil {
			return size, err
		}
		size += len(payload)
		if ev.Kind != turns.KindTurn {
			continue
		}
		var b turns.TurnBody
		if err := e.open(ev, &b); err != nil {
			if errors.Is(err, turns.ErrErased) {
				continue
			}
			return size, err
		}
		for _, p := range partsOf(&b) {
			size += contentSize(p)
			if p.Type == turns.ToolCall && wanted[p.ID] {
				found[p.ID] = true
			}
		}
	}
	return size, nil
}
