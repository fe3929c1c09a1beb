package paths

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/cmd/internal/engine/content"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// CallsAfter returns how a stored turn changed the calls that were open before it.
func (pl *Loader) CallsAfter(ctx context.Context, tenant string, s *ledger.Session, ev *turns.Event) (ledger.CallChanges, error) {
	var up lineage.Node
	if !ev.Parent.IsZero() {
		var err error
		if up, err = pl.reader.Projections.Node(ev.Parent); err != nil {
			return ledger.CallChanges{}, err
		}
	}
	open, err := pl.OpenCalls(ctx, tenant, s, nil, up)
	if err != nil {
		return ledger.CallChanges{}, err
	}
	var b turns.TurnBody
	if err := pl.content.Open(ev, &b); err != nil {
		return ledger.CallChanges{}, err
	}
	return open.After(b.Messages, b.Response, nil)
}

// KnownCalls caches the calls that are open at one turn.
type KnownCalls struct {
	Open ledger.Calls
	At   turns.Ref // zero if nothing is known
}

// OpenCalls returns the calls that wait for their response at head: the calls of the
// nearest response up the path, less those that later pending turns answered. known
// may be nil.
func (pl *Loader) OpenCalls(ctx context.Context, tenant string, s *ledger.Session, known *KnownCalls, head lineage.Node) (ledger.Calls, error) {
	if known != nil && known.At == head.Ref && !head.Ref.IsZero() {
		return known.Open, nil
	}
	var path []*turns.TurnBody
	for n := head; !n.Ref.IsZero(); {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: looked for open calls: %w", ledger.ErrUnavailable, ctx.Err())
		}
		t, err := pl.reader.Projections.Turn(n.Ref)
		if err != nil {
			return nil, err
		}
		if t.Open == 0 && len(path) == 0 {
			return nil, nil
		}
		if n.Kind == turns.KindTurn {
			b, err := pl.turnBody(n.Ref)
			if err != nil {
				return nil, err
			}
			path = append(path, b)
			if n.Halves.Has(turns.ResponseHalf) || hasAssistant(b.Messages) {
				break
			}
		}
		if n.Parent.IsZero() {
			break
		}
		if n, err = pl.reader.Projections.Node(n.Parent); err != nil {
			return nil, err
		}
	}
	var open ledger.Calls
	for _, b := range slices.Backward(path) {
		t, err := open.After(b.Messages, b.Response, nil)
		if err != nil {
			return nil, err
		}
		open = t.Open
	}
	return open, nil
}

// hasAssistant reports whether one of the messages is the assistant's.
func hasAssistant(ms []turns.Message) bool {
	return slices.ContainsFunc(ms, func(m turns.Message) bool { return m.Role == turns.Assistant })
}

// turnBody opens the body of a normal turn.
func (pl *Loader) turnBody(ref turns.Ref) (*turns.TurnBody, error) {
	_, ev, err := pl.reader.TurnEvent(ref)
	if err != nil {
		return nil, err
	}
	b := new(turns.TurnBody)
	return b, pl.content.Open(ev, b)
}

// LookBackTurns and lookBackBytes bound the search for the call of a late response.
// No index has the calls, since their ids are inside sealed bodies.
const (
	LookBackTurns = 4096
	lookBackBytes = 64 << 20 // of content
)

// CallFinder finds which calls were made on a path. It serves one request, and only
// a response that answers no open call needs it. It reads the path newest first,
// once for all ids, and remembers the result, since the request may be decided twice
// on one head.
type CallFinder struct {
	loader *Loader
	head   turns.Ref
	ids    []string
	found  map[string]bool
}

// NewCallFinder returns a finder for one request.
func (pl *Loader) NewCallFinder() *CallFinder { return &CallFinder{loader: pl} }

// Find returns which of ids have a call on the path to head. It returns an
// [ledger.ErrMalformed] if an id is missing within the bounds and the path is
// longer.
func (m *CallFinder) Find(ctx context.Context, head lineage.Node, ids []string) (map[string]bool, error) {
	if m.found != nil && m.head == head.Ref && slices.Equal(m.ids, ids) {
		return m.found, nil
	}
	found, err := m.loader.callsOn(ctx, head, ids)
	if err == nil {
		m.head, m.ids, m.found = head.Ref, slices.Clone(ids), found
	}
	return found, err
}

// callsOn reads the path to head backwards until it has found all of ids.
func (pl *Loader) callsOn(ctx context.Context, head lineage.Node, ids []string) (map[string]bool, error) {
	wanted, found := make(map[string]bool, len(ids)), make(map[string]bool)
	for _, id := range ids {
		wanted[id] = true
	}
	if head.Ref.IsZero() {
		return found, nil
	}
	lowest := uint64(1)
	if head.Depth > LookBackTurns {
		lowest = head.Depth - LookBackTurns + 1
	}
	ranges, err := lineage.Segments(pl.reader.Projections, head, lowest)
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
			n, err := pl.callsIn(ctx, lineage.Range{Session: r.Session, Segment: r.Segment, Lo: lo, Hi: hi}, wanted, found)
			if err != nil {
				return nil, err
			}
			if len(found) == len(wanted) {
				return found, nil
			}
			if size += n; size > lookBackBytes {
				return nil, callTooOld()
			}
			hi = lo - 1
		}
	}
	if lowest > 1 {
		return nil, callTooOld()
	}
	return found, nil
}

// callTooOld returns the error for a response whose call is beyond the bounds.
func callTooOld() error {
	return api.FieldErrorf("/messages", "a response to a call that is not among the last %d turns or %d bytes of the path: it is too late", LookBackTurns, lookBackBytes)
}

// callsIn adds to found those of wanted that a range has, and returns how many bytes
// of content it read.
func (pl *Loader) callsIn(ctx context.Context, r lineage.Range, wanted, found map[string]bool) (size int, err error) {
	for payload, err := range pl.reader.Projections.Range(r) {
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
		if err := pl.content.Open(ev, &b); err != nil {
			if errors.Is(err, turns.ErrErased) {
				continue
			}
			return size, err
		}
		for _, p := range content.BodyParts(&b) {
			size += content.PartSize(p)
			if p.Type == turns.ToolCall && wanted[p.ID] {
				found[p.ID] = true
			}
		}
	}
	return size, nil
}
