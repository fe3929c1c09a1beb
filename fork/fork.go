package fork

import (
	"errors"
	"fmt"

	"nexus/lineage"
	"nexus/turns"
)

// ErrIllegal: no such fork is possible at this turn.
var ErrIllegal = errors.New("illegal fork")

// At returns the fork of the given mode at a turn: what the child's first event
// states about it. Any turn or compaction can be forked from, also one with open
// tool calls; nothing is copied. Hash is that of the event that holds the turn.
func At(point lineage.Node, hash turns.Hash, mode turns.ForkMode) (*turns.ForkOf, error) {
	switch {
	case point.Ref.IsZero():
		return nil, fmt.Errorf("%w: a fork starts at a turn", ErrIllegal)
	case hash.IsZero():
		return nil, fmt.Errorf("%w: the fork point has no hash", ErrIllegal)
	case mode < turns.AsSeen || mode > turns.Summary:
		return nil, fmt.Errorf("%w: %s", ErrIllegal, mode)
	}
	return &turns.ForkOf{At: point.Ref, Hash: hash, Mode: mode}, nil
}

// Reusable reports whether a fork at point may use the replacement of a compaction
// of any branch. It may if every input of the summarizer is the fork point or above
// it (invariant 7), and the turns that the compaction keeps are on the path.
// Without this rule a summary would report to a fork what happened after its point.
// A compaction that another system recorded is never reused: its summary may leave
// out turns that it covers.
func Reusable(r lineage.Reader, point lineage.Node, s *turns.Span) (bool, error) {
	if s.Dropped || s.Provenance != turns.ByNexus {
		return false, nil
	}
	if s.SawThrough.IsZero() || s.Through.IsZero() || len(s.Elisions) > 0 {
		return false, nil
	}
	if s.FirstKept.IsZero() && s.Through != point.Ref {
		return false, nil // it covers all of its own path, and says nothing of what follows here
	}
	for _, ref := range []turns.Ref{s.SawThrough, s.Through, s.FirstKept, s.Previous} {
		if ref.IsZero() {
			continue
		}
		n, err := r.Node(ref)
		if err != nil {
			return false, err
		}
		ok, err := lineage.IsAncestor(r, n, point)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}
