package paths

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	known, err := pl.OpenCalls(ctx, tenant, s, nil, up)
	if err != nil {
		return ledger.CallChanges{}, err
	}
	var b turns.TurnBody
	if err := pl.content.Open(ev, &b); err != nil {
		return ledger.CallChanges{}, err
	}
	return known.Open.After(b.Messages, b.Response, nil)
}

// KnownCalls is the calls that are open at one turn. The zero KnownCalls knows nothing.
type KnownCalls struct {
	Open    ledger.Calls
	At      turns.Ref // zero if nothing is known
	Pending int       // turns since the response with these calls; 0 if none is open
}

// MaxPending bounds the turns that bring results of one response's calls, late ones and
// repeated ones too, while others of its calls are open. So the response is found within as
// many turns.
const MaxPending = 4096

// Then returns what is known after a turn that leaves open calls, but for At. Error: a
// FieldError if it is one turn of results too many.
func (k KnownCalls) Then(open ledger.Calls, ms []turns.Message, response *turns.Message) (KnownCalls, error) {
	after := KnownCalls{Open: open}
	if len(open) == 0 || response != nil || hasAssistant(ms) {
		return after, nil
	}
	if after.Pending = k.Pending + 1; after.Pending > MaxPending {
		return KnownCalls{}, api.FieldErrorf("/messages", "%d turns of results have followed a response, and %d of its calls are open; send a response or other content, which abandons them", MaxPending, len(open))
	}
	return after, nil
}

// OpenCalls returns the calls that wait for their response at head: the calls of the
// nearest response up the path, less those that later pending turns answered. known
// may be nil. Between that response and the head are only turns of results, at most
// [MaxPending], and compactions: other content would have abandoned the calls.
func (pl *Loader) OpenCalls(ctx context.Context, tenant string, s *ledger.Session, known *KnownCalls, head lineage.Node) (KnownCalls, error) {
	if known != nil && known.At == head.Ref && !head.Ref.IsZero() {
		return *known, nil
	}
	var path []*turns.TurnBody // the newest first, without content
	for n := head; !n.Ref.IsZero(); {
		if ctx.Err() != nil {
			return KnownCalls{}, fmt.Errorf("%w: looked for open calls: %w", ledger.ErrUnavailable, ctx.Err())
		}
		t, err := pl.reader.Projections.Turn(n.Ref)
		if err != nil {
			return KnownCalls{}, err
		}
		if t.Open == 0 && len(path) == 0 {
			return KnownCalls{At: head.Ref}, nil
		}
		if n.Kind == turns.KindTurn {
			b, err := pl.turnBody(n.Ref)
			if err != nil {
				return KnownCalls{}, err
			}
			path = append(path, callsOnly(b))
			if n.Halves.Has(turns.ResponseHalf) || hasAssistant(b.Messages) {
				break
			}
		}
		if n.Parent.IsZero() {
			break
		}
		if n, err = pl.reader.Projections.Node(n.Parent); err != nil {
			return KnownCalls{}, err
		}
	}
	out := KnownCalls{At: head.Ref}
	if len(path) == 0 {
		return out, nil
	}
	first := path[len(path)-1]
	made, err := out.Open.After(first.Messages, first.Response, nil)
	if err != nil {
		return KnownCalls{}, err
	}
	var results []turns.Message // at once: a fold takes as long as there are calls
	for _, b := range slices.Backward(path[:len(path)-1]) {
		results = append(results, b.Messages...)
	}
	left, err := made.Open.After(results, nil, nil)
	if err != nil {
		return KnownCalls{}, err
	}
	if out.Open = left.Open; len(out.Open) > 0 {
		out.Pending = len(path) - 1
	}
	return out, nil
}

// callsOnly returns what [ledger.Calls.After] reads of a body.
func callsOnly(b *turns.TurnBody) *turns.TurnBody {
	strip := func(m turns.Message) turns.Message {
		out := turns.Message{Role: m.Role, Parts: make([]turns.Part, len(m.Parts))}
		for i := range m.Parts {
			out.Parts[i] = turns.Part{Type: m.Parts[i].Type, ID: strings.Clone(m.Parts[i].ID)}
		}
		return out
	}
	out := &turns.TurnBody{Messages: make([]turns.Message, len(b.Messages))}
	for i := range b.Messages {
		out.Messages[i] = strip(b.Messages[i])
	}
	if b.Response != nil {
		r := strip(*b.Response)
		out.Response = &r
	}
	return out
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
