package search

import (
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// The states of a hit.
const (
	live        = "live"         // in the context of the session's next call
	elided      = "elided"       // shortened in it
	compacted   = "compacted"    // a summary stands for it
	archived    = "archived"     // the session was closed or reset; the memory is not in force
	otherBranch = "other_branch" // not on the path of the session's head
)

// view is what the next call of a session sees.
type view struct {
	session   *ledger.Session
	head      lineage.Node // zero: no turn
	inForce   lineage.Node // the compaction; zero: none
	inProject *bool        // that a search names; nil: not asked yet
	elided    map[turns.Elision]bool
	shortened map[turns.Ref]bool // turns that have an elided part
}

// viewOf returns the view of a session at its head.
func (se *Search) viewOf(s *ledger.Session) (v *view, err error) {
	v = &view{session: s}
	if v.head, err = se.reader.HeadNode(s); err != nil || v.head.Ref.IsZero() {
		return v, err
	}
	ref, err := se.reader.CompactionAt(s, v.head)
	if err != nil || ref.IsZero() {
		return v, err
	}
	row, ev, err := se.reader.TurnEvent(ref)
	if err != nil {
		return v, err
	}
	if ev.Span == nil {
		return v, fmt.Errorf("%w: compaction %s has no span", ledger.ErrCorrupt, ref)
	}
	v.inForce, v.elided, v.shortened = row.Node, make(map[turns.Elision]bool, len(ev.Span.Elisions)), make(map[turns.Ref]bool)
	for _, e := range ev.Span.Elisions {
		v.elided[e], v.shortened[e.Turn] = true, true
	}
	return v, nil
}

// state returns what the view sees of a part of a turn. onPath is false for a turn that
// the head does not descend from.
func (se *Search) state(v *view, n lineage.Node, p *part) (state string, onPath bool, err error) {
	if v.head.Ref.IsZero() {
		return otherBranch, false, nil
	}
	if onPath, err = lineage.IsAncestor(se.reader.Projections, n, v.head); err != nil && !errors.Is(err, lineage.ErrUnknown) {
		return "", false, err
	}
	cut := v.inForce.Cut
	switch {
	case !onPath:
		return otherBranch, false, nil
	case v.session.State == turns.Reset || v.session.State == turns.Closed || v.session.State == turns.Erased:
		return archived, true, nil
	case n.Kind == turns.KindCompaction && v.inForce.Ref.IsZero():
		return archived, true, nil // a fork that shows every turn leaves summaries aside
	case n.Kind == turns.KindCompaction && n.Cut == cut:
		return live, true, nil // later ones that only shorten parts carry its summary on
	case n.Kind == turns.KindCompaction:
		return compacted, true, nil
	case !v.inForce.Ref.IsZero() && lineage.CutBefore(n.Depth, p.half) < cut:
		return compacted, true, nil
	case v.elided[turns.Elision{Turn: n.Ref, Half: p.half, Message: p.message, Part: p.part}]:
		return elided, true, nil
	}
	return live, true, nil
}

// canBeCovered reports whether a part of a turn may be compacted or elided for the view. A
// cut covers the first half of a turn before the second.
func (se *Search) canBeCovered(v *view, n lineage.Node) (bool, error) {
	st, _, err := se.state(v, n, &part{half: turns.MessagesHalf})
	return st == compacted || (st == live || st == elided) && v.shortened[n.Ref], err
}
