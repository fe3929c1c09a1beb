package lineage

import "fmt"

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

// IsAncestor reports whether a is an ancestor of b, or b itself. It costs what
// [At] costs.
func IsAncestor(r Reader, a, b Node) (bool, error) {
	if a.Depth == 0 || a.Depth > b.Depth {
		return false, nil
	}
	at, err := At(r, b, a.Depth)
	return err == nil && at.Ref == a.Ref, err
}

// MergeBase returns the deepest common ancestor of a and b, where each counts as
// its own; ok is false where they are of different trees. Both sides are read
// together: fewer than 6*log2 of the greater depth calls of the reader.
func MergeBase(r Reader, a, b Node) (base Node, ok bool, err error) {
	deep, level := a, b
	if deep.Depth < level.Depth {
		deep, level = level, deep
	}
	x, err := At(r, deep, level.Depth)
	if err != nil {
		return Node{}, false, mergeBaseError(a, b, err)
	}
	for y := level; x.Ref != y.Ref; {
		// Jumps of one depth land at one depth. Where they differ the base is
		// above both; where they meet it is there or nearer.
		tx, ty, at := x.Jump, y.Jump, JumpDepth(x.Depth)
		if tx == ty {
			tx, ty, at = x.Parent, y.Parent, x.Depth-1
		}
		if at == 0 {
			return Node{}, false, nil // two roots
		}
		ns, err := read(r, tx, ty)
		if err != nil {
			return Node{}, false, mergeBaseError(a, b, err)
		}
		if x, y = ns[0], ns[1]; x.Depth != at || y.Depth != at {
			return Node{}, false, mergeBaseError(a, b,
				corrupt("%s and %s are at depths %d and %d, the way to them says %d", tx, ty, x.Depth, y.Depth, at))
		}
	}
	return x, true, nil
}

func mergeBaseError(a, b Node, err error) error {
	return fmt.Errorf("merge base of %s and %s: %w", a.Ref, b.Ref, err)
}
