package lineage

import (
	"fmt"
	"iter"
	"slices"

	"nexus/turns"
)

// Range is a stretch of a root path inside one segment: the turns of depth Lo
// to Hi, both included. A store that sorts by (session, segment, depth)
// answers it with one scan.
type Range struct {
	Session turns.ID
	Segment turns.ID
	Lo, Hi  uint64
}

// Segments returns the root path of from, from depth lo (0 as 1) down to from
// itself, as ranges, root first. It is empty where lo is below from. It reads
// one node for each segment after the first, however long the segments are.
//
// Errors: the reader's; [ErrCorrupt] for a segment that does not lead to the one
// above it.
func Segments(r Reader, from Node, lo uint64) ([]Range, error) {
	lo = max(lo, 1)
	var out []Range
	for n := from; n.Depth >= lo; {
		if err := checkRank(n, n.Rank); err != nil {
			return nil, segmentsError(from, err)
		}
		out = append(out, Range{n.Ref.Session, n.Segment, max(n.Opened, lo), n.Depth})
		if n.Opened <= lo {
			break
		}
		above, err := step(r, n.Above, n.Opened-1)
		if err == nil {
			err = checkRank(above, n.Rank-1)
		}
		if err != nil {
			return nil, segmentsError(from, err)
		}
		n = above
	}
	slices.Reverse(out)
	return out, nil
}

func segmentsError(from Node, err error) error {
	return fmt.Errorf("segments of the path to %s: %w", from.Ref, err)
}

// Path returns the turns of the root path of from, from depth lo (0 as 1) down to
// from itself, root first. It goes from parent to parent; a store answers the
// ranges of [Segments] faster.
func Path(r Reader, from Node, lo uint64) ([]Node, error) {
	lo = max(lo, 1)
	if lo > from.Depth {
		return nil, nil
	}
	out := make([]Node, 0, from.Depth-lo+1)
	for n := from; ; {
		out = append(out, n)
		if n.Depth == lo {
			break
		}
		var err error
		if n, err = step(r, n.Parent, n.Depth-1); err != nil {
			return nil, fmt.Errorf("path to %s: %w", from.Ref, err)
		}
	}
	slices.Reverse(out)
	return out, nil
}

// Compactions yields the compactions whose replacements are shown, one inside the
// other, for the covered part of n's path: the one in force first, then the
// one it replaced, and so on. Compactions of the path that a fork of mode full
// ignores are not among them. An error is yielded last.
//
// A session forked in mode full that has no turn of its own yet sees its fork
// point without any: its caller clears n.Compaction first.
//
// Invariant: each is an ancestor of the one before it, and n's compaction in
// force is n or an ancestor of n. Only depths are checked here.
func Compactions(r Reader, n Node) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		below := n.Depth + 1
		for at := n.Compaction; !at.IsZero(); {
			c, err := n, error(nil)
			if at != n.Ref {
				c, err = read(r, at)
			}
			if err == nil && (c.Kind != turns.KindCompaction || c.Depth >= below) {
				err = corrupt("%s, a %s at depth %d, can't be in force above depth %d", at, c.Kind, c.Depth, below)
			}
			if err != nil {
				yield(Node{}, fmt.Errorf("compactions of %s: %w", n.Ref, err))
				return
			}
			if !yield(c, nil) {
				return
			}
			below, at = c.Depth, c.Previous
		}
	}
}

// Chain collects [Compactions].
func Chain(r Reader, n Node) ([]Node, error) {
	var out []Node
	for c, err := range Compactions(r, n) {
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Cycle returns the cycle of compaction that the path to n is in: how many compactions
// in force on it cover turns, and one; and the last of those, none in the first
// cycle. With forget the compactions of the path do not count, as in [Child].
//
// It reads the compactions since the cycle began, which cover nothing.
// Errors: those of [Compactions].
func Cycle(r Reader, n Node, forget bool) (cycle uint64, after turns.Ref, err error) {
	if forget || n.Cycles == 0 {
		return 1, turns.Ref{}, nil
	}
	for c, err := range Compactions(r, n) {
		if err != nil {
			return 0, turns.Ref{}, err
		}
		if c.Cycles < n.Cycles {
			break
		}
		after = c.Ref
	}
	return n.Cycles + 1, after, nil
}
