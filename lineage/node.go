package lineage

import "nexus/turns"

// Node is what the lineage knows of one turn. Nodes never change.
//
// Invariant: Depth == depth(Parent)+1, and 1 for a root.
// Invariant: the parent is stored before the child.
type Node struct {
	Ref     turns.Ref
	Parent  turns.Ref // none: a root
	Jump    turns.Ref // an ancestor farther up (Myers 1983); none: a root
	Depth   uint64
	Segment turns.ID // the turn, of the same session, that opened the segment
	Kind    turns.Kind
	Halves  turns.Halves

	// The place of the segment among those of the root path. Every node of a segment has
	// the same four values, so that a walk goes from segment to segment.
	//
	// Invariant: Above is at depth Opened-1.
	Rank      uint64    // number of segments on the root path, this one included: 1 for that of a root
	Opened    uint64    // depth of the segment's first turn
	Above     turns.Ref // parent of that turn: the path's last turn in the segment before; none: rank 1
	AboveJump turns.Ref // the path's last turn in the segment of rank JumpDepth(Rank); none: rank 1

	// Compaction is the compaction in force at this node: the node itself if it is
	// one, zero if none is in force.
	Compaction turns.Ref
	// Call says that Compaction is in force only until a turn brings text of the
	// user. Enclosing is the compaction that is in force from then on, zero if there
	// is none.
	Call      bool
	Enclosing turns.Ref

	// Cycles is how many of the compactions in force on the root path, this node
	// included, cover turns that none before them did.
	Cycles uint64

	// Sum is the tokens of all normal halves on the root path up to and
	// including this node, so that a stretch of a path is counted by one
	// subtraction. Messages and Response are this node's own.
	Sum      uint64
	Messages uint64
	Response uint64
	Calls    uint64 // tool calls in the response

	// Compactions only. Covered is everything on the path before Cut.
	//
	// Invariant: Previous's cut <= Cut <= 2*Depth.
	Cut      Cut
	Previous turns.Ref // the compaction that was in force before
	Replaced uint64    // tokens of the replacement of the covered part
	Saved    uint64    // tokens that its elisions take off the kept halves
	Imported bool
	Dropped  bool // what it newly covered is not in the replacement
}

// Cut is a position between two halves on a root path. Everything with a
// position below it lies before it. A turn at depth d has its messages at
// position 2d and its response at 2d+1; a cut at 2d+1 splits the turn.
type Cut uint64

// CutBefore returns the cut before half h of the turn at depth d.
func CutBefore(d uint64, h turns.Half) Cut {
	if h == turns.ResponseHalf {
		return Cut(2*d + 1)
	}
	return Cut(2 * d)
}

// Depth returns the depth of the first turn with a half at or after the cut.
func (c Cut) Depth() uint64 { return uint64(c) / 2 }

// Last returns the depth of the last turn with a half before the cut, 0 if there is none.
func (c Cut) Last() uint64 {
	if c == 0 {
		return 0
	}
	return (c - 1).Depth()
}

// Split reports whether the cut is inside a turn.
func (c Cut) Split() bool { return c%2 == 1 }

// halves are the two halves in path order.
func halves() [2]turns.Half { return [2]turns.Half{turns.MessagesHalf, turns.ResponseHalf} }

// Reader reads nodes.
type Reader interface {
	// Node returns the node of a turn. Errors: [ErrUnknown] if it is not there.
	Node(ref turns.Ref) (Node, error)
}
