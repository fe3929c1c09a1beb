package lineage

import "nexus/turns"

// CheckPlaced checks one compaction at its place on the path. What [CheckCoverage] checks
// along a whole root path follows for every path, if CheckPlaced holds for each
// compaction of the forest and [Forest.Add], or the same check of parent and
// depth, for each node: a chain of compactions is in order if each is behind the
// one that it replaced. So a verification costs what its events cost, not what
// their paths do.
//
// N is the compaction, elisions those of its span. It reads a few times log2 of
// the depth, and a few nodes for each turn with an elision.
//
// Errors: [ErrCorrupt], [ErrUnfit], the reader's.
func CheckPlaced(r Reader, n Node, elisions []turns.Elision) error {
	switch {
	case n.Kind != turns.KindCompaction || n.Compaction != n.Ref:
		return corrupt("coverage: %s, of kind %s, is given as a compaction, in force is %s", n.Ref, n.Kind, n.Compaction)
	case n.Cut > CutBefore(n.Depth, turns.MessagesHalf):
		return corrupt("coverage: compaction %s, at depth %d, covers up to %d, past itself", n.Ref, n.Depth, n.Cut)
	case n.Parent.IsZero():
		return corrupt("coverage: compaction %s has no parent", n.Ref)
	}
	parent, err := step(r, n.Parent, n.Depth-1)
	if err != nil {
		return err
	}
	if !n.Previous.IsZero() {
		p, err := read(r, n.Previous)
		if err != nil {
			return err
		}
		on, err := IsAncestor(r, p, parent)
		switch {
		case err != nil:
			return err
		case !on || p.Kind != turns.KindCompaction:
			return corrupt("coverage: %s replaces %s, a %s that is not a compaction on its path", n.Ref, p.Ref, p.Kind)
		case p.Cut > n.Cut:
			return corrupt("coverage: compaction %s cuts at %d, before %s at %d", n.Ref, n.Cut, p.Ref, p.Cut)
		}
	}
	for _, e := range elisions {
		if e.Half != turns.MessagesHalf && e.Half != turns.ResponseHalf {
			return corrupt("coverage: an elision in the %s of %s, which is no half", e.Half, e.Turn)
		}
	}
	return checkElided(r, parent, n.Cut, elisions)
}
