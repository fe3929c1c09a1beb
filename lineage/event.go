package lineage

import (
	"fmt"
	"math"
	"slices"

	"nexus/turns"
)

// Grow returns the node of e, a turn or a compaction, below parent (the zero
// Node where e names no parent). It is the step of every fold of events into
// a forest: the one that decides on an append, the projection's and the
// verifier's.
//
// Forget says that the compaction in force at parent does not count. It is to
// be set where e is on a session forked in mode full and its parent is on
// another session.
//
// It reads at most one node for a turn; for a compaction a few times log2 of
// the depth, one for each compaction that lies right before the cut, and a few
// for each turn with an elision.
// It does not check that no other turn continues the segment from the same parent:
// that needs an index of children ([Forest] checks it).
//
// Errors: [ErrInvalid], the reader's ([ErrUnknown] for a turn that e names).
func Grow(r Reader, parent Node, e *turns.Event, forget bool) (Node, error) {
	n, err := grow(r, parent, e, forget)
	if err != nil {
		return Node{}, fmt.Errorf("place %s %s: %w", e.Kind, e.Ref(), err)
	}
	return n, nil
}

func grow(r Reader, parent Node, e *turns.Event, forget bool) (Node, error) {
	if err := checkPlace(parent, e); err != nil {
		return Node{}, err
	}
	node := Node{Ref: e.Ref(), Segment: e.Segment, Kind: e.Kind}
	if e.Kind == turns.KindTurn {
		node.Halves, node.Calls = e.Halves, e.Calls
		node.Messages, node.Response = e.Tokens.Messages, e.Tokens.Response
		if parent.Ref.IsZero() {
			if _, ok := add(node.Messages, node.Response); !ok {
				return Node{}, invalid("its tokens overflow")
			}
			return Root(node), nil
		}
		n, err := Child(r, parent, node, forget)
		if err == nil && n.Call && e.UserTexts > 0 {
			n.Compaction, n.Call, n.Enclosing = n.Enclosing, false, turns.Ref{}
		}
		return n, err
	}

	if _, ok := add(e.Tokens.Messages, e.Tokens.Response); !ok {
		return Node{}, invalid("its tokens overflow")
	}
	node.Replaced, node.Saved, node.Call = e.Tokens.Messages, e.Tokens.Response, e.Span.Call
	node.Imported = e.Span.Provenance == turns.Imported
	node.Dropped = e.Span.Dropped
	n, err := Child(r, parent, node, forget)
	if err != nil {
		return Node{}, err
	}
	previous := Cut(0)
	if n.Cut, previous, err = cutOf(r, parent, n, e.Span); err != nil {
		return Node{}, err
	}
	if n.Cut > previous {
		n.Cycles++
	}
	return n, checkElided(r, parent, n.Cut, e.Span.Elisions)
}

// checkPlace checks what needs no reading: parent, depth, segment, halves.
func checkPlace(parent Node, e *turns.Event) error {
	ref := e.Ref()
	switch {
	case !e.Kind.IsTurn():
		return invalid("a %s event is no turn", e.Kind)
	case ref.Session.IsZero() || ref.Turn.IsZero():
		return invalid("it is on chain %s", e.Chain)
	case parent.Ref != e.Parent:
		return invalid("its parent is %s, not %s", e.Parent, parent.Ref)
	case e.Parent == ref:
		return invalid("it is its own parent")
	case e.Depth != parent.Depth+1:
		return invalid("depth %d below a parent at depth %d", e.Depth, parent.Depth)
	case e.Segment != e.ID && (parent.Ref.IsZero() || parent.Ref.Session != ref.Session || parent.Segment != e.Segment):
		return invalid("segment %s is neither opened by it nor that of its parent", e.Segment)
	case e.Kind == turns.KindTurn && e.Halves == 0:
		return invalid("it has neither messages nor a response")
	case e.Kind == turns.KindTurn && e.Halves&^turns.Halves(turns.MessagesHalf|turns.ResponseHalf) != 0:
		return invalid("halves %d", e.Halves)
	case e.Kind == turns.KindCompaction && parent.Ref.IsZero():
		return invalid("a compaction without a parent")
	case e.Kind == turns.KindCompaction && e.Span == nil:
		return invalid("a compaction without its span")
	}
	return nil
}

// cutOf returns the cut of compaction n and the cut in force before it. It checks both against the path of n.
//
// Invariant: every half before the cut was before the previous cut or is newly
// covered, so no half falls between two compactions.
func cutOf(r Reader, parent, n Node, s *turns.Span) (cut, previous Cut, err error) {
	if s.Previous != n.Previous {
		return 0, 0, invalid("it follows compaction %s, in force is %s", s.Previous, n.Previous)
	}
	named, err := onPath(r, parent, s.Previous, s.FirstKept, s.SawThrough)
	if err != nil {
		return 0, 0, err
	}
	previous, firstKept := named[0].Cut, named[1]

	var last Node // the last turn before the cut
	switch {
	case s.Through.IsZero() && s.FirstKept.IsZero():
		return previous, previous, nil // nothing is covered that was not before
	case s.FirstKept.IsZero():
		cut, last = CutBefore(n.Depth, turns.MessagesHalf), parent
	case firstKept.Kind != turns.KindTurn:
		return 0, 0, invalid("first kept %s is not a normal turn", s.FirstKept)
	case s.Split:
		if s.Through != s.FirstKept || firstKept.Halves != turns.Halves(turns.MessagesHalf|turns.ResponseHalf) {
			return 0, 0, invalid("it splits %s, which has no two halves to part or is not its last covered turn (%s)", s.FirstKept, s.Through)
		}
		cut, last = CutBefore(firstKept.Depth, turns.ResponseHalf), firstKept
	default:
		cut = CutBefore(firstKept.Depth, turns.MessagesHalf)
		if firstKept.Depth > 1 {
			if last, err = step(r, firstKept.Parent, firstKept.Depth-1); err != nil {
				return 0, 0, err
			}
		}
	}
	if s.Call && cut != previous {
		return 0, 0, invalid("it stands for one call only, but covers what %s did not", s.Previous)
	}
	if cut < previous {
		return 0, 0, invalid("it keeps from %s on, which is before the cut of %s: a covered half can't be kept again", s.FirstKept, s.Previous)
	}
	return cut, previous, checkThrough(r, s, last, previous, cut)
}

// checkThrough checks that the last normal turn before cut, which last or an
// ancestor of it is, is the one the span names; where it names none, that
// nothing is newly covered.
func checkThrough(r Reader, s *turns.Span, last Node, previous, cut Cut) (err error) {
	for last.Kind == turns.KindCompaction {
		if last, err = step(r, last.Parent, last.Depth-1); err != nil {
			return err
		}
	}
	if last.Ref == s.Through {
		return nil
	}
	if !s.Through.IsZero() {
		return invalid("it covers through %s, but the last turn before its cut is %s", s.Through, last.Ref)
	}
	for _, h := range halves() {
		if at := CutBefore(last.Depth, h); last.Halves.Has(h) && previous <= at && at < cut {
			return invalid("it covers nothing, but the %s of %s would be neither covered nor kept", h, last.Ref)
		}
	}
	return nil
}

// checkElided checks that elisions are of halves of the path to parent that cut
// keeps, in path order, none twice. It goes up the path once, from elided turn to
// elided turn.
func checkElided(r Reader, parent Node, cut Cut, elisions []turns.Elision) error {
	var named, at Node
	above := parent
	next := [3]uint64{math.MaxUint64} // position, message and part of the elision below
	for _, e := range slices.Backward(elisions) {
		if e.Turn != named.Ref {
			var err error
			if named, err = read(r, e.Turn); err != nil {
				return err
			}
			if named.Depth > above.Depth {
				return invalid("it elides a part of %s, which is out of order or not on its path", e.Turn)
			}
			if at, err = At(r, above, named.Depth); err != nil {
				return err
			}
			above = at
		}
		if at.Ref != e.Turn || at.Kind != turns.KindTurn || !at.Halves.Has(e.Half) {
			return invalid("it elides a part of the %s of %s, which are not on its path", e.Half, e.Turn)
		}
		p := [3]uint64{uint64(CutBefore(at.Depth, e.Half)), e.Message, e.Part}
		switch {
		case Cut(p[0]) < cut:
			return invalid("it elides a part of the %s of %s, which it covers", e.Half, e.Turn)
		case slices.Compare(p[:], next[:]) >= 0:
			return invalid("its elision of part %d of message %d of the %s of %s is out of order or there twice", e.Part, e.Message, e.Half, e.Turn)
		}
		next = p
	}
	return nil
}

// onPath reads the nodes of refs (the zero Node for none), which must be
// ancestors of n or n itself.
func onPath(r Reader, n Node, refs ...turns.Ref) ([]Node, error) {
	out := make([]Node, len(refs))
	for i, ref := range refs {
		if ref.IsZero() {
			continue
		}
		var err error
		if out[i], err = read(r, ref); err != nil {
			return nil, err
		}
		switch is, err := IsAncestor(r, out[i], n); {
		case err != nil:
			return nil, err
		case !is:
			return nil, invalid("it names %s, which is not on its path", ref)
		}
	}
	return out, nil
}
