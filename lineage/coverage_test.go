package lineage

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"nexus/turns"
)

// publishedExample returns the Second Compaction of the Nexus design: C1 covers t1 to t3
// and keeps t4, t5; C2 covers through t6 and keeps t7, t8.
func publishedExample(t *testing.T) (w *world, path, chain []Node) {
	w = newWorld()
	script(t, w, `
A t1
A t2
A t3
A t4
A t5
A C1 compact through=t3 keep=t4
A t6
A t7
A t8
A C2 compact through=t6 keep=t7
`)
	n := w.node(refOf("A", "C2"))
	path, err := Path(w, n, 0)
	must(t, err)
	chain, err = Chain(w, n)
	must(t, err)
	return w, path, chain
}

// TestSecondCompactionCoversWhatTheFirstKept: C1 kept t4 and t5; C2 must cover them, or no
// context shows them or a replacement of them.
func TestSecondCompactionCoversWhatTheFirstKept(t *testing.T) {
	_, path, chain := publishedExample(t)
	c1, c2 := refOf("A", "C1"), refOf("A", "C2")
	var want []HalfState
	for _, x := range []struct {
		turn  string
		depth uint64
		state State
		by    turns.Ref
	}{
		{"t1", 1, Covered, c1}, {"t2", 2, Covered, c1}, {"t3", 3, Covered, c1},
		{"t4", 4, Covered, c2}, {"t5", 5, Covered, c2}, {"t6", 7, Covered, c2},
		{"t7", 8, Verbatim, turns.Ref{}}, {"t8", 9, Verbatim, turns.Ref{}},
	} {
		for _, h := range []turns.Half{turns.MessagesHalf, turns.ResponseHalf} {
			want = append(want, HalfState{refOf("A", x.turn), x.depth, h, x.state, x.by})
		}
	}
	diff(t, "coverage", want, Cover(path, chain, nil))
	must(t, CheckCoverage(path, chain, nil))
}

// TestPartitionFindsTheGapOfThePublishedFunctions gives CheckPartition what the design's own functions say of
// that example: its summaries reach from a compaction back to the one before,
// which leaves t4 and t5 in no state.
func TestPartitionFindsTheGapOfThePublishedFunctions(t *testing.T) {
	w, path, _ := publishedExample(t)
	var states []HalfState
	say := func(name string, s State, by turns.Ref) {
		n := w.node(refOf("A", name))
		for _, h := range halves() {
			states = append(states, HalfState{n.Ref, n.Depth, h, s, by})
		}
	}
	for _, c := range []turns.Ref{refOf("A", "C1"), refOf("A", "C2")} {
		for at := w.events[c].Span.Through; !at.IsZero() && w.events[at].Kind == turns.KindTurn; at = w.events[at].Parent {
			states = append(states, HalfState{at, w.node(at).Depth, turns.MessagesHalf, Covered, c}, HalfState{at, w.node(at).Depth, turns.ResponseHalf, Covered, c})
		}
	}
	say("t7", Verbatim, turns.Ref{})
	say("t8", Verbatim, turns.Ref{})
	err := CheckPartition(path, states)
	want := "the messages of " + refOf("A", "t4").String() + ", at depth 4, are neither kept nor covered"
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want ErrCorrupt: %s", err, want)
	}
}

func TestCheckPartitionNamesEachFault(t *testing.T) {
	_, path, chain := publishedExample(t)
	c1 := refOf("A", "C1")
	for _, test := range []struct {
		name   string
		change func([]HalfState) []HalfState
		text   string // "": sound
	}{
		{"as it is", func(s []HalfState) []HalfState { return s }, ""},
		{"any order", func(s []HalfState) []HalfState { slices.Reverse(s); return s }, ""},
		{"one missing", func(s []HalfState) []HalfState { return s[:len(s)-1] }, "the response of " + refOf("A", "t8").String()},
		{"none", func([]HalfState) []HalfState { return nil }, "the messages of " + refOf("A", "t1").String()},
		{"one twice", func(s []HalfState) []HalfState { return append(s, s[3]) }, "the response of " + refOf("A", "t2").String() + " are covered by " + c1.String() + " and covered by " + c1.String()},
		{"two states", func(s []HalfState) []HalfState {
			return append(s, HalfState{Ref: s[0].Ref, Half: s[0].Half, State: Verbatim})
		}, "are covered by " + c1.String() + " and verbatim"},
		{"a compaction's half", func(s []HalfState) []HalfState {
			return append(s, HalfState{Ref: c1, Half: turns.MessagesHalf, State: Verbatim})
		}, "the messages of " + c1.String() + " are verbatim, but are not on the path"},
		{"no state", func(s []HalfState) []HalfState { s[2].State = 0; return s }, "state(0)"},
		{"unknown state", func(s []HalfState) []HalfState { s[2].State = 5; return s }, "state(5)"},
		{"covered by none", func(s []HalfState) []HalfState { s[2].By = turns.Ref{}; return s }, "covered by none"},
	} {
		checkFault(t, test.name, CheckPartition(path, test.change(Cover(path, chain, nil))), test.text)
	}
}

func TestCheckCoverageNamesEachFault(t *testing.T) {
	t4, t7, t8 := refOf("A", "t4"), refOf("A", "t7"), refOf("A", "t8")
	type inputs struct {
		path, chain []Node
		elisions    []turns.Elision
	}
	in := func(ref turns.Ref, h turns.Half, message, part uint64) turns.Elision {
		return turns.Elision{Turn: ref, Half: h, Message: message, Part: part}
	}
	for _, test := range []struct {
		name   string
		change func(*inputs)
		text   string // "": sound
	}{
		{"as it is", func(*inputs) {}, ""},
		{"nothing at all", func(g *inputs) { *g = inputs{} }, ""},
		{"elisions in order", func(g *inputs) {
			g.elisions = []turns.Elision{in(t7, 1, 0, 0), in(t7, 1, 0, 1), in(t7, 1, 1, 0), in(t7, 2, 0, 0), in(t8, 1, 0, 0)}
		}, ""},
		{"path without its root", func(g *inputs) { g.path = g.path[1:] }, "path: " + refOf("A", "t2").String()},
		{"path with a gap", func(g *inputs) { g.path = slices.Delete(g.path, 3, 4) }, "path: " + refOf("A", "t5").String()},
		{"not the one in force", func(g *inputs) { g.chain = g.chain[1:] }, "given as in force"},
		{"chain too short", func(g *inputs) { g.chain = g.chain[:1] }, "was not given"},
		{"chain off the path", func(g *inputs) { g.path = g.path[:9]; g.path[8].Compaction = g.chain[0].Ref }, "not a compaction on the path"},
		{"covers past itself", func(g *inputs) { g.chain[1].Cut = 13 }, "past itself"},
		{"a cut that goes back", func(g *inputs) { g.chain[0].Cut = 5 }, "the response of " + refOf("A", "t2").String() + ", at depth 2, are covered by"},
		{"a cut one half back", func(g *inputs) { g.chain[1].Cut, g.chain[0].Cut = 9, 8 }, "the messages of " + t4.String() + ", at depth 4, are covered by " + refOf("A", "C1").String() + " and kept by " + refOf("A", "C2").String()},
		{"elided and covered", func(g *inputs) { g.elisions = []turns.Elision{in(t4, 1, 0, 0)} }, "the messages of " + t4.String() + ", at depth 4, are elided"},
		{"elided off the path", func(g *inputs) { g.elisions = []turns.Elision{in(refOf("B", "b1"), 1, 0, 0)} }, "not on the path"},
		{"elided compaction", func(g *inputs) { g.elisions = []turns.Elision{in(refOf("A", "C2"), 1, 0, 0)} }, "not on the path"},
		{"elided in no half", func(g *inputs) { g.elisions = []turns.Elision{in(t7, 3, 0, 0)} }, "half(3)"},
		{"elided twice", func(g *inputs) { g.elisions = []turns.Elision{in(t7, 1, 0, 0), in(t7, 1, 0, 0)} }, "out of order or there twice"},
		{"elided out of order", func(g *inputs) { g.elisions = []turns.Elision{in(t8, 1, 0, 0), in(t7, 1, 0, 0)} }, "out of order"},
		{"elided without a compaction", func(g *inputs) { g.path, g.chain = g.path[:5], nil; g.elisions = []turns.Elision{in(t4, 1, 0, 0)} }, "no compaction in force"},
	} {
		_, path, chain := publishedExample(t)
		g := inputs{path: path, chain: chain}
		test.change(&g)
		checkFault(t, test.name, CheckCoverage(g.path, g.chain, g.elisions), test.text)
	}
}

func checkFault(t *testing.T, name string, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case text != "" && (!errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), text)):
		t.Errorf("%s: error = %v, want ErrCorrupt with %q", name, err, text)
	}
}
