package lineage

import (
	"fmt"
	"math"

	"nexus/turns"
)

// Forest is a forest held in memory: the [Reader] of tests and of offline
// work. The zero Forest is empty and ready. Not safe for use by several
// goroutines while one adds.
type Forest struct {
	nodes []Node // in the order they were added
	index map[turns.Ref]uint32
	ends  map[turns.Ref]uint64 // by session and segment: the depth of its last turn
}

// Node is [Reader]'s.
func (f *Forest) Node(ref turns.Ref) (Node, error) {
	at, ok := f.index[ref]
	if !ok {
		return Node{}, fmt.Errorf("%w: %s", ErrUnknown, ref)
	}
	return f.nodes[at], nil
}

// Len returns the number of nodes.
func (f *Forest) Len() int { return len(f.nodes) }

// All returns every node in the order they were added, so a parent before its
// children. The forest owns the slice: read only.
func (f *Forest) All() []Node { return f.nodes }

// AddEvent adds the node of e, as [Grow] makes it, and returns it. Its
// parent must have been added. Nothing is added on an error.
//
// Errors: Grow's; [ErrUnknown] for a missing parent; [ErrInvalid] for a turn
// that is there already or continues a segment that goes on otherwise.
func (f *Forest) AddEvent(e *turns.Event, forget bool) (Node, error) {
	var parent Node
	if !e.Parent.IsZero() {
		var err error
		if parent, err = f.Node(e.Parent); err != nil {
			return Node{}, fmt.Errorf("place %s %s: parent: %w", e.Kind, e.Ref(), err)
		}
	}
	n, err := Grow(f, parent, e, forget)
	if err != nil {
		return Node{}, err
	}
	if err := f.insert(n); err != nil {
		return Node{}, fmt.Errorf("place %s: %w", e.Kind, err)
	}
	return n, nil
}

// Add adds n after checking its place: parent, depth, jump, segment and what is above it. It does not
// check the sums of n, nor the cut of a compaction.
//
// Errors: as AddEvent's.
func (f *Forest) Add(n Node) error {
	want := Root(n)
	if !n.Parent.IsZero() {
		parent, err := f.Node(n.Parent)
		if err != nil {
			return fmt.Errorf("add %s: parent: %w", n.Ref, err)
		}
		if want, err = Child(f, parent, n, false); err != nil {
			return err
		}
		if n.Segment != n.Ref.Turn && (parent.Segment != n.Segment || parent.Ref.Session != n.Ref.Session) {
			return invalid("add %s: segment %s is neither opened by it nor that of its parent", n.Ref, n.Segment)
		}
	} else if n.Segment != n.Ref.Turn {
		return invalid("add %s: a root in segment %s, which it did not open", n.Ref, n.Segment)
	}
	if n.Depth != want.Depth || n.Jump != want.Jump {
		return invalid("add %s: depth %d and jump %s, want %d and %s", n.Ref, n.Depth, n.Jump, want.Depth, want.Jump)
	}
	if n.Rank != want.Rank || n.Opened != want.Opened || n.Above != want.Above || n.AboveJump != want.AboveJump {
		return invalid("add %s: a segment of rank %d from depth %d below %s and %s, want %d, %d, %s and %s",
			n.Ref, n.Rank, n.Opened, n.Above, n.AboveJump, want.Rank, want.Opened, want.Above, want.AboveJump)
	}
	return f.insert(n)
}

func (f *Forest) insert(n Node) error {
	segment := turns.Ref{Session: n.Ref.Session, Turn: n.Segment}
	if _, ok := f.index[n.Ref]; ok {
		return invalid("%s is there already", n.Ref)
	}
	if end := f.ends[segment]; n.Segment != n.Ref.Turn && end != n.Depth-1 {
		return invalid("%s continues segment %s at depth %d, which goes on to %d", n.Ref, segment, n.Depth, end)
	}
	if len(f.nodes) == math.MaxUint32 {
		return fmt.Errorf("%w: a forest of %d turns", turns.ErrTooLarge, len(f.nodes))
	}
	if f.index == nil {
		f.index, f.ends = map[turns.Ref]uint32{}, map[turns.Ref]uint64{}
	}
	f.index[n.Ref] = uint32(len(f.nodes))
	f.nodes = append(f.nodes, n)
	f.ends[segment] = n.Depth
	return nil
}
