package lineage

import (
	"fmt"
	"math/bits"

	"nexus/turns"
)

// JumpDepth returns the depth of the jump pointer of a node at depth d: 0, none,
// for a root. It depends on d alone, so that a walk knows where a jump lands
// before it reads it, and a node that lands elsewhere is found out.
//
// By E. W. Myers, "An applicative random-access stack" (1983): a jump is as
// long as the smallest term of d-1 in skew-binary, written as a sum of numbers
// 2^k-1, the largest first. A walk to any ancestor takes fewer than
// 3*log2(d)+1 steps.
func JumpDepth(d uint64) uint64 {
	if d <= 1 {
		return 0
	}
	for rest := d - 1; ; {
		term := uint64(1)<<(bits.Len64(rest+1)-1) - 1
		if rest -= term; rest == 0 {
			return d - term
		}
	}
}

// Root returns the node of a turn without a parent. The caller fills in the fields that
// come from the turn itself: Ref, Segment, Kind, Halves, Messages, Response, Calls.
// Root fills in the rest. Messages+Response must not overflow.
func Root(node Node) Node {
	node.Parent, node.Jump, node.Compaction, node.Previous = turns.Ref{}, turns.Ref{}, turns.Ref{}, turns.Ref{}
	node.Call, node.Enclosing, node.Cycles = false, turns.Ref{}, 0
	node.Depth = 1
	node.Rank, node.Opened, node.Above, node.AboveJump = 1, 1, turns.Ref{}, turns.Ref{}
	node.Sum = node.Messages + node.Response
	return node
}

// Child returns the node of a turn below parent. The caller fills in the fields of node
// that [Root] names; for a compaction also Cut, Replaced, Saved, Call, Imported and
// Dropped. Child fills in Parent, Jump, Depth, Sum, Compaction, Enclosing, Previous and
// Cycles (of a compaction without itself), and for a compaction clears the fields that
// only normal turns have.
//
// With forget, the compaction in force at parent does not count: the first turn
// below the fork point of a fork of mode full has none.
//
// It reads parent's jump where the new one goes beyond it, and the same for the segment
// that node opens: at most two nodes.
// Errors: the reader's; [ErrInvalid] where the sum of tokens overflows.
func Child(r Reader, parent, node Node, forget bool) (Node, error) {
	jump, err := jumpBelow(r, parent)
	if err != nil {
		return Node{}, err
	}
	node.Parent, node.Jump, node.Depth = parent.Ref, jump, parent.Depth+1
	if node.Rank, node.Opened, node.Above, node.AboveJump = parent.Rank, parent.Opened, parent.Above, parent.AboveJump; !sameSegment(node, parent) {
		node.Rank, node.Opened, node.Above = parent.Rank+1, node.Depth, parent.Ref
		if node.AboveJump, err = segmentJumpBelow(r, parent); err != nil {
			return Node{}, err
		}
	}
	above := parent
	if forget {
		above.Compaction, above.Call, above.Enclosing, above.Cycles = turns.Ref{}, false, turns.Ref{}, 0
	}
	node.Cycles = above.Cycles
	if node.Kind == turns.KindCompaction {
		node.Previous, node.Compaction, node.Enclosing = above.Compaction, node.Ref, turns.Ref{}
		if node.Call {
			node.Enclosing = above.Compaction
			if above.Call {
				node.Enclosing = above.Enclosing
			}
		}
		node.Halves, node.Messages, node.Response, node.Calls = 0, 0, 0, 0
	} else {
		node.Previous, node.Compaction, node.Call, node.Enclosing = turns.Ref{}, above.Compaction, above.Call, above.Enclosing
	}
	sum, ok := add(parent.Sum, node.Messages, node.Response)
	if !ok {
		return Node{}, invalid("the tokens of the path of %s overflow", node.Ref)
	}
	node.Sum = sum
	return node, nil
}

// jumpBelow returns the jump of a child of p: p itself, or, where p's jump and the
// one before it are of one length, as far as both together.
func jumpBelow(r Reader, p Node) (turns.Ref, error) {
	to := JumpDepth(p.Depth + 1)
	if to == p.Depth {
		return p.Ref, nil
	}
	j := p
	if !p.Jump.IsZero() { // a root has no jump and is used in its place
		var err error
		if j, err = step(r, p.Jump, JumpDepth(p.Depth)); err != nil {
			return turns.Ref{}, fmt.Errorf("jump of %s: %w", p.Ref, err)
		}
	}
	if j.Depth == to {
		return j.Ref, nil // j is the root
	}
	return j.Jump, nil
}

// segmentJumpBelow returns the AboveJump of a segment that a child of p opens. It is
// jumpBelow with ranks in the place of depths.
func segmentJumpBelow(r Reader, p Node) (turns.Ref, error) {
	to := JumpDepth(p.Rank + 1)
	if to == p.Rank {
		return p.Ref, nil
	}
	j := p
	if !p.AboveJump.IsZero() {
		var err error
		if j, err = hop(r, p.AboveJump, JumpDepth(p.Rank)); err != nil {
			return turns.Ref{}, fmt.Errorf("segment above %s: %w", p.Ref, err)
		}
	}
	if j.Rank == to {
		return j.Ref, nil
	}
	return j.AboveJump, nil
}

// hop reads the node of ref, which must be in a segment of a rank.
func hop(r Reader, ref turns.Ref, rank uint64) (Node, error) {
	n, err := read(r, ref)
	if err != nil {
		return Node{}, err
	}
	return n, checkRank(n, rank)
}

func checkRank(n Node, rank uint64) error {
	if n.Rank != rank || n.Depth < n.Opened {
		return corrupt("%s, at depth %d, is in a segment of rank %d that begins at depth %d; the way to it says rank %d", n.Ref, n.Depth, n.Rank, n.Opened, rank)
	}
	return nil
}

func sameSegment(a, b Node) bool { return a.Ref.Session == b.Ref.Session && a.Segment == b.Segment }

// step reads the node of ref, which must be at depth.
func step(r Reader, ref turns.Ref, depth uint64) (Node, error) {
	n, err := read(r, ref)
	if err != nil {
		return Node{}, err
	}
	if n.Depth != depth {
		return Node{}, corrupt("%s is at depth %d, the way to it says %d", ref, n.Depth, depth)
	}
	return n, nil
}

// read reads a node and checks that it is the one asked for.
func read(r Reader, ref turns.Ref) (Node, error) {
	n, err := r.Node(ref)
	if err == nil && n.Ref != ref {
		return Node{}, corrupt("asked for %s, got %s", ref, n.Ref)
	}
	return n, err
}

// add returns the sum of ns, and whether it did not overflow.
func add(ns ...uint64) (sum uint64, ok bool) {
	for _, n := range ns {
		var carry uint64
		if sum, carry = bits.Add64(sum, n, 0); carry != 0 {
			return 0, false
		}
	}
	return sum, true
}
