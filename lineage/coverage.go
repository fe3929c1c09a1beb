package lineage

import (
	"fmt"

	"nexus/turns"
)

// State is what became of one half of a normal turn in the context of a later
// one. Every half is in exactly one.
type State uint8

// The states. Erased is none of them: it hides content, whatever its state.
const (
	Verbatim State = 1 // in the context as it was stored
	Elided   State = 2 // in the context, some part of it shown shortened
	Covered  State = 3 // a compaction's replacement is shown in its place
	Dropped  State = 4 // covered by an imported compaction whose replacement does not hold it
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Verbatim:
		return "verbatim"
	case Elided:
		return "elided"
	case Covered:
		return "covered"
	case Dropped:
		return "dropped"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// HalfState is one half of a normal turn and its state.
type HalfState struct {
	Ref   turns.Ref
	Depth uint64
	Half  turns.Half
	State State
	// By is the compaction that covered, dropped or elides it; none for
	// verbatim. The one that covered it is the first whose cut lay after it:
	// later replacements include that one's.
	By turns.Ref
}

// Cover returns the state of every half of the normal turns of path, a stretch of a
// root path, root first. Chain is the compactions in force at the turn that
// the context is for, newest first, as [Chain] gives it. Elided says which
// halves have an elision in force; nil: none.
//
// Halves at or after the cut of the compaction in force are verbatim or
// elided; one before it belongs to the compaction c of the chain with
// cut(previous of c) <= position < cut(c).
func Cover(path, chain []Node, elided func(turns.Ref, turns.Half) bool) []HalfState {
	out := make([]HalfState, 0, 2*len(path))
	next := len(chain) // chain[next-1] is the oldest with a cut still ahead
	for i := range path {
		n := &path[i]
		if n.Kind != turns.KindTurn {
			continue
		}
		for _, h := range halves() {
			if !n.Halves.Has(h) {
				continue
			}
			for next > 0 && chain[next-1].Cut <= CutBefore(n.Depth, h) {
				next--
			}
			s := HalfState{Ref: n.Ref, Depth: n.Depth, Half: h, State: Verbatim}
			switch {
			case next > 0 && chain[next-1].Dropped:
				s.State, s.By = Dropped, chain[next-1].Ref
			case next > 0:
				s.State, s.By = Covered, chain[next-1].Ref
			case elided != nil && elided(n.Ref, h):
				s.State, s.By = Elided, chain[0].Ref
			}
			out = append(out, s)
		}
	}
	return out
}

type halfKey struct {
	ref  turns.Ref
	half turns.Half
}

// ElidedBy returns the function that [Cover] asks, for a compaction's elisions.
func ElidedBy(elisions []turns.Elision) func(turns.Ref, turns.Half) bool {
	set := make(map[halfKey]bool, len(elisions))
	for _, e := range elisions {
		set[halfKey{e.Turn, e.Half}] = true
	}
	return func(ref turns.Ref, h turns.Half) bool { return set[halfKey{ref, h}] }
}
