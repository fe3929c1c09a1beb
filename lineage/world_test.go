package lineage

import (
	"fmt"
	"slices"
	"time"

	"nexus/turns"
)

// idOf returns the ID that a name always has in tests.
func idOf(name string) turns.ID { return turns.DeriveID(time.UnixMilli(1), name) }

// world is a forest under test, and what the slow twins read of it: the
// events themselves.
type world struct {
	Forest
	events map[turns.Ref]*turns.Event
	forget map[turns.Ref]bool
	index  map[turns.ID]uint64 // next ordinal on a chain
}

func newWorld() *world {
	return &world{events: map[turns.Ref]*turns.Event{}, forget: map[turns.Ref]bool{}, index: map[turns.ID]uint64{}}
}

// event returns a turn of session s below parent. It continues parent's segment
// where it can.
func (w *world) event(s, id turns.ID, parent turns.Ref) *turns.Event {
	e := &turns.Event{
		Version: turns.Version, Kind: turns.KindTurn, ID: id, Chain: turns.SessionChain(s),
		Parent: parent, Depth: 1, Segment: id, Halves: turns.Halves(turns.MessagesHalf | turns.ResponseHalf),
	}
	if !parent.IsZero() {
		p := w.node(parent)
		e.Depth = p.Depth + 1
		if parent.Session == s && w.ends[turns.Ref{Session: s, Turn: p.Segment}] == p.Depth {
			e.Segment = p.Segment
		}
	}
	return e
}

func (w *world) add(e *turns.Event, forget bool) (Node, error) {
	n, err := w.AddEvent(e, forget)
	if err == nil {
		w.events[n.Ref], w.forget[n.Ref] = e, forget
	}
	return n, err
}

func (w *world) node(ref turns.Ref) Node {
	n, err := w.Node(ref)
	if err != nil {
		panic(fmt.Sprintf("the test names a turn it never added: %v", err))
	}
	return n
}

func (w *world) nodesOf(refs []turns.Ref) (out []Node) {
	for _, ref := range refs {
		out = append(out, w.node(ref))
	}
	return out
}

// The slow twins: parent by parent, over the events.

func (w *world) slowPath(ref turns.Ref) (path []turns.Ref) {
	for ; !ref.IsZero(); ref = w.events[ref].Parent {
		path = append(path, ref)
	}
	slices.Reverse(path)
	return path
}

func (w *world) slowMergeBase(a, b turns.Ref) (base turns.Ref) {
	pa, pb := w.slowPath(a), w.slowPath(b)
	for i := 0; i < min(len(pa), len(pb)) && pa[i] == pb[i]; i++ {
		base = pa[i]
	}
	return base
}

func (w *world) slowSegments(ref turns.Ref, lo uint64) (out []Range) {
	for i, at := range w.slowPath(ref) {
		e := w.events[at]
		d := uint64(i + 1)
		switch {
		case d < lo:
		case len(out) > 0 && out[len(out)-1].Segment == e.Segment && out[len(out)-1].Session == at.Session:
			out[len(out)-1].Hi = d
		default:
			out = append(out, Range{at.Session, e.Segment, d, d})
		}
	}
	return out
}

// slowChain returns the compactions that count at ref, newest first.
func (w *world) slowChain(ref turns.Ref) (chain []turns.Ref) {
	for _, at := range w.slowPath(ref) {
		if w.forget[at] {
			chain = nil
		}
		if w.events[at].Kind == turns.KindCompaction {
			chain = append(chain, at)
		}
	}
	slices.Reverse(chain)
	return chain
}

// slowCycle counts the compactions that count at ref and cut later than the one
// before them, and names the last.
func (w *world) slowCycle(ref turns.Ref) (cycle uint64, after turns.Ref) {
	cycle, cut := 1, Cut(0)
	for _, at := range slices.Backward(w.slowChain(ref)) {
		if n := w.node(at); n.Cut > cut {
			cycle, after, cut = cycle+1, at, n.Cut
		}
	}
	return cycle, after
}

// slowCover lives through the path: each turn adds its halves, each compaction
// marks what of them it takes out of the context.
func (w *world) slowCover(ref turns.Ref) []HalfState {
	out := []HalfState{}
	for i, at := range w.slowPath(ref) {
		e := w.events[at]
		if w.forget[at] {
			for k := range out {
				out[k].State, out[k].By = Verbatim, turns.Ref{}
			}
		}
		if e.Kind == turns.KindTurn {
			for _, h := range []turns.Half{turns.MessagesHalf, turns.ResponseHalf} {
				if e.Halves.Has(h) {
					out = append(out, HalfState{Ref: at, Depth: uint64(i + 1), Half: h, State: Verbatim})
				}
			}
			continue
		}
		state := Covered
		if e.Span.Dropped {
			state = Dropped
		}
		keeping := e.Span.Through.IsZero() && e.Span.FirstKept.IsZero()
		for k := range out {
			o := &out[k]
			keeping = keeping || o.Ref == e.Span.FirstKept && (!e.Span.Split || o.Half == turns.ResponseHalf)
			if o.State == Covered || o.State == Dropped {
				continue
			}
			o.State, o.By = Verbatim, turns.Ref{}
			if !keeping {
				o.State, o.By = state, at
			} else if slices.ContainsFunc(e.Span.Elisions, func(x turns.Elision) bool { return x.Turn == o.Ref && x.Half == o.Half }) {
				o.State, o.By = Elided, at
			}
		}
	}
	return out
}

// slowTokens adds the halves of the path with a position in [lo, hi).
func (w *world) slowTokens(ref turns.Ref, lo, hi Cut) (sum uint64) {
	for i, at := range w.slowPath(ref) {
		e := w.events[at]
		if e.Kind != turns.KindTurn {
			continue
		}
		if p := Cut(2 * (i + 1)); lo <= p && p < hi {
			sum += e.Tokens.Messages
		}
		if p := Cut(2*(i+1) + 1); lo <= p && p < hi {
			sum += e.Tokens.Response
		}
	}
	return sum
}

// compactionAt returns a legal compaction of s below parent that keeps the halves
// from the keep-th of those now kept on (none where keep is their number), and
// elides those that elide picks.
func (w *world) compactionAt(s, id turns.ID, parent turns.Ref, forget bool, keep int, elide func(int) bool) *turns.Event {
	e := w.event(s, id, parent)
	e.Kind, e.Halves = turns.KindCompaction, 0
	e.Span = &turns.Span{Provenance: turns.ByNexus}
	if chain := w.slowChain(parent); len(chain) > 0 && !forget {
		e.Span.Previous = chain[0]
	}
	cover := w.slowCover(parent)
	first := 0
	for first < len(cover) && !forget && (cover[first].State == Covered || cover[first].State == Dropped) {
		first++
	}
	at := first + keep
	if at < len(cover) {
		c := cover[at]
		e.Span.FirstKept = c.Ref
		e.Span.Split = c.Half == turns.ResponseHalf && w.events[c.Ref].Halves.Has(turns.MessagesHalf)
	}
	if at > 0 {
		e.Span.Through = cover[at-1].Ref
		e.Span.SawThrough = cover[at-1].Ref
	}
	for i, c := range cover[at:] {
		if elide != nil && elide(i) {
			e.Span.Elisions = append(e.Span.Elisions, turns.Elision{Turn: c.Ref, Half: c.Half})
		}
	}
	return e
}
