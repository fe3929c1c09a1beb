package lineage

import (
	"fmt"

	"nexus/turns"
)

// At returns the ancestor of n at depth, which is n itself at n.Depth. It reads one
// node a step, in fewer than 3*log2(n.Depth)+1 steps.
//
// Errors: [ErrUnknown] where depth is 0 or below n's; the reader's;
// [ErrCorrupt] for a pointer that lands at the wrong depth, which a cycle must
// have somewhere.
func At(r Reader, n Node, depth uint64) (Node, error) {
	if depth == 0 || depth > n.Depth {
		return Node{}, fmt.Errorf("%w: %s, at depth %d, has no ancestor at depth %d", ErrUnknown, n.Ref, n.Depth, depth)
	}
	for m := n; ; {
		if m.Depth == depth {
			return m, nil
		}
		to, at := m.Parent, m.Depth-1
		if j := JumpDepth(m.Depth); j >= depth {
			to, at = m.Jump, j
		}
		var err error
		if m, err = step(r, to, at); err != nil {
			return Node{}, fmt.Errorf("ancestor of %s at depth %d: %w", n.Ref, depth, err)
		}
	}
}

// inRank returns the last turn of n's root path in the path's segment of a rank: n itself
// at n.Rank. It reads one node a step, in fewer than 3*log2(n.Rank)+1 steps, however
// long the segments are. rank is at least 1 and at most n.Rank.
func inRank(r Reader, n Node, rank uint64) (Node, error) {
	for m := n; ; {
		if m.Rank <= rank {
			return m, checkRank(m, rank)
		}
		to, at := m.Above, m.Rank-1
		if j := JumpDepth(m.Rank); j >= rank {
			to, at = m.AboveJump, j
		}
		up, err := hop(r, to, at)
		if err == nil && up.Depth >= m.Opened {
			err = corrupt("%s, at depth %d, is above a segment that begins at depth %d", up.Ref, up.Depth, m.Opened)
		}
		if err != nil {
			return Node{}, fmt.Errorf("segment of rank %d above %s: %w", rank, n.Ref, err)
		}
		m = up
	}
}

// IsAncestor reports whether a is an ancestor of b, or b itself. It reads a node for a
// few of the segments between them, and none where both are of one segment.
func IsAncestor(r Reader, a, b Node) (bool, error) {
	if a.Depth == 0 || a.Depth > b.Depth || a.Rank > b.Rank {
		return false, nil
	}
	if err := checkRank(a, max(a.Rank, 1)); err != nil {
		return false, err
	}
	at, err := inRank(r, b, a.Rank)
	return err == nil && sameSegment(at, a) && at.Depth >= a.Depth, err
}

// MergeBase returns the deepest common ancestor of a and b, where each counts as
// its own; ok is false where they are of different trees. It goes from segment to
// segment, and reads fewer than 15*log2 of the greater rank nodes.
func MergeBase(r Reader, a, b Node) (base Node, ok bool, err error) {
	rank := max(min(a.Rank, b.Rank), 1)
	x, err := inRank(r, a, rank)
	if err != nil {
		return Node{}, false, mergeBaseError(a, b, err)
	}
	y, err := inRank(r, b, rank)
	if err != nil {
		return Node{}, false, mergeBaseError(a, b, err)
	}
	for !sameSegment(x, y) {
		// Jumps of one rank land at one rank. Where they are of two segments the base is
		// above both; where they are of one it is there or nearer.
		if x.Rank == 1 {
			return Node{}, false, nil // two roots
		}
		at := JumpDepth(x.Rank)
		u, v, err := hops(r, x.AboveJump, y.AboveJump, at)
		if err == nil && sameSegment(u, v) && at != x.Rank-1 {
			u, v, err = hops(r, x.Above, y.Above, x.Rank-1)
		}
		if err != nil {
			return Node{}, false, mergeBaseError(a, b, err)
		}
		x, y = u, v
	}
	if y.Depth < x.Depth { // both paths go down the segment as far as the shorter one
		x = y
	}
	return x, true, nil
}

// hops reads two nodes, which must be in segments of a rank.
func hops(r Reader, x, y turns.Ref, rank uint64) (u, v Node, err error) {
	u, err = hop(r, x, rank)
	switch {
	case err != nil:
	case x == y:
		v = u
	default:
		v, err = hop(r, y, rank)
	}
	return u, v, err
}

func mergeBaseError(a, b Node, err error) error {
	return fmt.Errorf("merge base of %s and %s: %w", a.Ref, b.Ref, err)
}
