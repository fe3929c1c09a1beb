package fork

import (
	"errors"
	"testing"

	"nexus/lineage"
	"nexus/turns"
)

// forest is t1..t5 in one session, then a compaction that covers t1 to t3 and
// keeps t4 and t5, as the Nexus design draws it.
func forest(t *testing.T) (*lineage.Forest, []lineage.Node, *turns.Span) {
	t.Helper()
	s := turns.ID{15: 1}
	id := func(n byte) turns.ID { return turns.ID{0: 1, 15: n} }
	f := new(lineage.Forest)
	var nodes []lineage.Node
	var parent turns.Ref
	add := func(e *turns.Event) lineage.Node {
		e.Chain, e.Parent, e.Segment = turns.SessionChain(s), parent, id(1)
		n, err := f.AddEvent(e, false)
		if err != nil {
			t.Fatal(err)
		}
		nodes, parent = append(nodes, n), n.Ref
		return n
	}
	for i := byte(1); i <= 5; i++ {
		add(&turns.Event{ID: id(i), Kind: turns.KindTurn, Depth: uint64(i), Halves: 3})
	}
	span := &turns.Span{
		Through: nodes[2].Ref, FirstKept: nodes[3].Ref, SawThrough: nodes[2].Ref, Provenance: turns.ByNexus, Covered: 3,
	}
	add(&turns.Event{ID: id(6), Kind: turns.KindCompaction, Depth: 6, Span: span})
	return f, nodes, span
}

func TestSummaryIsReusedOnlyWhereItSawNothingLater(t *testing.T) {
	f, nodes, span := forest(t)
	for _, tc := range []struct {
		point int // index of the fork point
		want  bool
	}{
		{0, false}, // t1: the summary tells of t2 and t3, which come after
		{1, false},
		{2, false}, // t3: t4, which the compaction keeps, is not on the path
		{3, true},
		{4, true},
		{5, true},
	} {
		got, err := Reusable(f, nodes[tc.point], span)
		if err != nil || got != tc.want {
			t.Errorf("fork at %s: reusable %v, %v; want %v", nodes[tc.point].Ref, got, err, tc.want)
		}
	}
	whole := *span // keeps nothing
	whole.FirstKept = turns.Ref{}
	for i, want := range []bool{2: true, 3: false} {
		if i < 2 {
			continue
		}
		if got, err := Reusable(f, nodes[i], &whole); err != nil || got != want {
			t.Errorf("fork at %s of a summary of all through t3: reusable %v, %v; want %v", nodes[i].Ref, got, err, want)
		}
	}
	for name, change := range map[string]func(*turns.Span){
		"recorded by another system": func(s *turns.Span) { s.Provenance = turns.Imported },
		"dropped":                    func(s *turns.Span) { s.Dropped = true },
		"of an unknown last input":   func(s *turns.Span) { s.SawThrough = turns.Ref{} },
		"a view that covers nothing": func(s *turns.Span) { s.Through = turns.Ref{} },
		"shortened parts":            func(s *turns.Span) { s.Elisions = []turns.Elision{{Turn: nodes[3].Ref, Half: turns.MessagesHalf}} },
	} {
		other := *span
		change(&other)
		if got, err := Reusable(f, nodes[3], &other); err != nil || got {
			t.Errorf("fork at t4 of a compaction that is %s: reusable %v, %v; want false", name, got, err)
		}
	}
	late := *span
	late.SawThrough = nodes[4].Ref // a summarizer that was shown t5
	if got, err := Reusable(f, nodes[3], &late); err != nil || got {
		t.Errorf("fork at t4 of a summary that saw t5: reusable %v, %v; want false", got, err)
	}
}

func TestAtRefusesAnUnknownModeAndThePlaceBeforeTheFirstTurn(t *testing.T) {
	_, nodes, _ := forest(t)
	if _, err := At(lineage.Node{}, turns.Hash{1}, turns.AsSeen); !errors.Is(err, ErrIllegal) {
		t.Errorf("fork before the first turn: %v, want ErrIllegal", err)
	}
	for _, mode := range []turns.ForkMode{turns.AsSeen - 1, turns.Summary + 1} {
		if _, err := At(nodes[1], turns.Hash{1}, mode); !errors.Is(err, ErrIllegal) {
			t.Errorf("fork in mode %d: %v, want ErrIllegal", mode, err)
		}
	}
	for _, mode := range []turns.ForkMode{turns.AsSeen, turns.Full, turns.Summary} {
		got, err := At(nodes[1], turns.Hash{1}, mode)
		if err != nil || *got != (turns.ForkOf{At: nodes[1].Ref, Hash: turns.Hash{1}, Mode: mode}) {
			t.Errorf("fork at t2 in mode %s: %+v, %v", mode, got, err)
		}
	}
}
