package lineage

import (
	"fmt"
	"slices"

	"nexus/turns"
)

// CheckPartition checks that states names every half of every normal turn of
// path once, in a known state, and nothing else. Where states came from is
// all the same: [Cover], a rendered context, another program's account.
// The error is [ErrCorrupt] and names the first half at fault.
func CheckPartition(path []Node, states []HalfState) error {
	named := make(map[halfKey]HalfState, len(states))
	for _, s := range states {
		switch {
		case s.State < Verbatim || s.State > Dropped:
			return corrupt("coverage: the %s of %s are in %s", s.Half, s.Ref, s.State)
		case s.By.IsZero() != (s.State == Verbatim):
			return corrupt("coverage: the %s of %s are %s by %s", s.Half, s.Ref, s.State, s.By)
		}
		if t, twice := named[halfKey{s.Ref, s.Half}]; twice {
			return corrupt("coverage: the %s of %s are %s and %s", s.Half, s.Ref, describe(t), describe(s))
		}
		named[halfKey{s.Ref, s.Half}] = s
	}
	for _, n := range path {
		if n.Kind != turns.KindTurn {
			continue
		}
		for _, h := range halves() {
			if !n.Halves.Has(h) {
				continue
			}
			if _, ok := named[halfKey{n.Ref, h}]; !ok {
				return corrupt("coverage: the %s of %s, at depth %d, are neither kept nor covered", h, n.Ref, n.Depth)
			}
			delete(named, halfKey{n.Ref, h})
		}
	}
	for _, s := range states {
		if _, unmatched := named[halfKey{s.Ref, s.Half}]; unmatched {
			return corrupt("coverage: the %s of %s are %s, but are not on the path", s.Half, s.Ref, describe(s))
		}
	}
	return nil
}

func describe(s HalfState) string {
	if s.By.IsZero() {
		return s.State.String()
	}
	return fmt.Sprintf("%s by %s", s.State, s.By)
}

// CheckCoverage checks that path is a whole root path, that chain is the
// compactions in force at its end, that their cuts follow one another, and
// that elisions, in path order, are of halves that are kept: so that each half
// of each normal turn is in exactly one state. O(path + chain + elisions).
// The error is [ErrCorrupt] and names the half, or the compaction, at fault.
func CheckCoverage(path, chain []Node, elisions []turns.Elision) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if err := checkChain(path, chain); err != nil {
		return err
	}
	if err := checkElisions(path, chain, elisions); err != nil {
		return err
	}
	return CheckPartition(path, Cover(path, chain, ElidedBy(elisions)))
}

func checkPath(path []Node) error {
	var above Node
	for _, n := range path {
		if n.Depth != above.Depth+1 || n.Parent != above.Ref {
			return corrupt("path: %s, at depth %d and below %s, follows %s, at depth %d", n.Ref, n.Depth, n.Parent, above.Ref, above.Depth)
		}
		above = n
	}
	return nil
}

func checkChain(path, chain []Node) error {
	var want turns.Ref
	if len(path) > 0 {
		want = path[len(path)-1].Compaction
	}
	after := Node{Cut: Cut(2*len(path) + 2)} // nothing yet: any cut on the path is before it
	for _, c := range chain {
		if c.Ref != want {
			return corrupt("coverage: compaction %s is given as in force, the path says %s", c.Ref, want)
		}
		if c.Kind != turns.KindCompaction || c.Depth == 0 || c.Depth > uint64(len(path)) || path[c.Depth-1].Ref != c.Ref {
			return corrupt("coverage: %s is not a compaction on the path", c.Ref)
		}
		if c.Cut > CutBefore(c.Depth, turns.MessagesHalf) {
			return corrupt("coverage: compaction %s, at depth %d, covers up to %d, past itself", c.Ref, c.Depth, c.Cut)
		}
		if c.Cut > after.Cut {
			return cutsBack(path, c, after)
		}
		after, want = c, c.Previous
	}
	if !want.IsZero() {
		return corrupt("coverage: compaction %s is in force and was not given", want)
	}
	return nil
}

// cutsBack returns the error of a compaction, after, that keeps what the one before
// it, c, had covered.
func cutsBack(path []Node, c, after Node) error {
	for _, n := range path {
		for _, h := range halves() {
			if at := CutBefore(n.Depth, h); n.Halves.Has(h) && after.Cut <= at && at < c.Cut {
				return corrupt("coverage: the %s of %s, at depth %d, are covered by %s and kept by %s", h, n.Ref, n.Depth, c.Ref, after.Ref)
			}
		}
	}
	return corrupt("coverage: compaction %s cuts at %d, before %s at %d", after.Ref, after.Cut, c.Ref, c.Cut)
}

func checkElisions(path, chain []Node, elisions []turns.Elision) error {
	if len(elisions) == 0 {
		return nil
	}
	if len(chain) == 0 {
		return corrupt("coverage: %d elisions and no compaction in force", len(elisions))
	}
	index := make(map[turns.Ref]Node, len(path))
	for _, n := range path {
		index[n.Ref] = n
	}
	var last [3]uint64 // position, message and part; no position is 0
	for _, e := range elisions {
		n, ok := index[e.Turn]
		if !ok || n.Kind != turns.KindTurn || !slices.Contains([]turns.Half{turns.MessagesHalf, turns.ResponseHalf}, e.Half) || !n.Halves.Has(e.Half) {
			return corrupt("coverage: an elision in the %s of %s, which are not on the path", e.Half, e.Turn)
		}
		at := CutBefore(n.Depth, e.Half)
		if at < chain[0].Cut {
			return corrupt("coverage: the %s of %s, at depth %d, are elided by %s and covered too", e.Half, e.Turn, n.Depth, chain[0].Ref)
		}
		p := [3]uint64{uint64(at), e.Message, e.Part}
		if slices.Compare(last[:], p[:]) >= 0 {
			return corrupt("coverage: the elision of part %d of message %d of the %s of %s is out of order or there twice", e.Part, e.Message, e.Half, e.Turn)
		}
		last = p
	}
	return nil
}
