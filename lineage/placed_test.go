package lineage

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"nexus/turns"
)

// nodes is a reader of nodes that a test may change.
type nodes map[turns.Ref]Node

func (ns nodes) Node(ref turns.Ref) (Node, error) {
	n, ok := ns[ref]
	if !ok {
		return n, fmt.Errorf("%w: %s", ErrUnknown, ref)
	}
	return n, nil
}

// wholePaths checks the root path of every compaction: the slow twin.
func wholePaths(ns nodes, compactions []turns.Ref, elisions map[turns.Ref][]turns.Elision) error {
	for _, ref := range compactions {
		path, err := Path(ns, ns[ref], 1)
		if err != nil {
			return err
		}
		chain, err := Chain(ns, ns[ref])
		if err != nil {
			return err
		}
		if err := CheckCoverage(path, chain, elisions[ref]); err != nil {
			return err
		}
	}
	return nil
}

func placed(ns nodes, compactions []turns.Ref, elisions map[turns.Ref][]turns.Elision) error {
	for _, ref := range compactions {
		if err := CheckPlaced(ns, ns[ref], elisions[ref]); err != nil {
			return err
		}
	}
	return nil
}

// CheckPlaced refuses a compaction if and only if CheckCoverage refuses a whole path:
// on random forests, and on those with one compaction changed.
func TestCheckPlacedAgreesWithWholePaths(t *testing.T) {
	wrong, right := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w, all := drawWorld(t)
		ns, elisions := nodes{}, map[turns.Ref][]turns.Elision{}
		var compactions []turns.Ref
		for _, ref := range all {
			if ns[ref] = w.node(ref); ns[ref].Kind == turns.KindCompaction {
				compactions = append(compactions, ref)
				elisions[ref] = w.events[ref].Span.Elisions
			}
		}
		if err := wholePaths(ns, compactions, elisions); err != nil {
			t.Fatalf("a legal forest: %v", err)
		}
		if err := placed(ns, compactions, elisions); err != nil {
			t.Fatalf("a legal forest: %v", err)
		}
		if len(compactions) == 0 {
			return
		}
		ref := rapid.SampledFrom(compactions).Draw(t, "compaction")
		n := ns[ref]
		switch rapid.IntRange(0, 5).Draw(t, "change") {
		case 0:
			n.Cut = Cut(rapid.Uint64Range(0, 2*n.Depth+3).Draw(t, "cut"))
		case 1:
			n.Previous = rapid.SampledFrom(all).Draw(t, "previous")
		case 2:
			n.Previous = turns.Ref{}
		case 3:
			n.Kind = turns.KindTurn
		case 4:
			e := turns.Elision{Turn: rapid.SampledFrom(all).Draw(t, "elided"), Half: turns.Half(rapid.IntRange(0, 3).Draw(t, "half"))}
			at := rapid.IntRange(0, len(elisions[ref])).Draw(t, "at")
			elisions[ref] = slices.Insert(slices.Clone(elisions[ref]), at, e)
		case 5:
			elisions[ref] = slices.Clone(elisions[ref])
			slices.Reverse(elisions[ref])
		}
		ns[ref] = n
		slow, fast := wholePaths(ns, compactions, elisions), placed(ns, compactions, elisions)
		if (slow == nil) != (fast == nil) {
			t.Fatalf("whole paths: %v; where they stand: %v", slow, fast)
		}
		if slow == nil {
			right++
		} else {
			wrong++
		}
	})
	if wrong == 0 || right == 0 {
		t.Errorf("of the changed forests %d are wrong, %d right: nothing was compared", wrong, right)
	}
}
