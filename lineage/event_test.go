package lineage

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"nexus/turns"
)

// line returns a session A of normal turns t1..t5, compaction c1 (covers t1 to t3),
// turns t6 to t8.
func line(t *testing.T) *world {
	w := newWorld()
	script(t, w, `
A t1
A t2
A t3
A t4
A t5
A c1 compact through=t3 keep=t4
A t6
A t7
A t8
B b1 parent=t2
`)
	return w
}

func refOf(session, name string) turns.Ref {
	return turns.Ref{Session: idOf(session), Turn: idOf(name)}
}

// TestGrowRefusesEachIllegalEvent holds what each event must not do, one change to a legal event
// at a time.
func TestGrowRefusesEachIllegalEvent(t *testing.T) {
	at := func(name string) turns.Ref { return refOf("A", name) }
	tests := []struct {
		name    string
		compact bool
		forget  bool
		change  func(*turns.Event)
		is      error
		text    string
	}{
		{name: "legal turn", change: func(*turns.Event) {}},
		{name: "legal compaction", compact: true, change: func(*turns.Event) {}},
		{name: "no turn", change: func(e *turns.Event) { e.Kind = turns.KindMoved }, is: ErrInvalid, text: "is no turn"},
		{name: "chain of a label", change: func(e *turns.Event) { e.Chain = turns.Chain{Entity: turns.LabelEntity, ID: "x"} }, is: ErrInvalid, text: "on chain"},
		{name: "unknown parent", change: func(e *turns.Event) { e.Parent = at("t99") }, is: ErrUnknown, text: "parent"},
		{name: "own parent", change: func(e *turns.Event) { e.Parent = e.Ref() }, is: ErrUnknown, text: "parent"},
		{name: "depth short", change: func(e *turns.Event) { e.Depth-- }, is: ErrInvalid, text: "depth 9 below a parent at depth 9"},
		{name: "depth long", change: func(e *turns.Event) { e.Depth++ }, is: ErrInvalid, text: "depth 11"},
		{name: "foreign segment", change: func(e *turns.Event) { e.Segment = idOf("b1") }, is: ErrInvalid, text: "segment"},
		{name: "segment across sessions", change: func(e *turns.Event) { e.Chain = turns.SessionChain(idOf("B")) }, is: ErrInvalid, text: "segment"},
		{name: "segment that went on", change: func(e *turns.Event) { e.Parent, e.Depth = at("t7"), 9 }, is: ErrInvalid, text: "goes on to 9"},
		{name: "no halves", change: func(e *turns.Event) { e.Halves = 0 }, is: ErrInvalid, text: "neither"},
		{name: "too many halves", change: func(e *turns.Event) { e.Halves = 7 }, is: ErrInvalid, text: "halves 7"},
		{name: "there already", change: func(e *turns.Event) { e.ID, e.Segment = idOf("t3"), idOf("t3") }, is: ErrInvalid, text: "there already"},
		{name: "tokens overflow", change: func(e *turns.Event) { e.Tokens = turns.Tokens{Messages: math.MaxUint64, Response: 1} }, is: ErrInvalid, text: "overflow"},

		{name: "root compaction", compact: true, change: func(e *turns.Event) { e.Parent, e.Depth, e.Segment = turns.Ref{}, 1, e.ID }, is: ErrInvalid, text: "without a parent"},
		{name: "no span", compact: true, change: func(e *turns.Event) { e.Span = nil }, is: ErrInvalid, text: "span"},
		{name: "replacement overflows", compact: true, change: func(e *turns.Event) { e.Tokens = turns.Tokens{Messages: math.MaxUint64, Response: 1} }, is: ErrInvalid, text: "overflow"},
		{name: "wrong previous", compact: true, change: func(e *turns.Event) { e.Span.Previous = turns.Ref{} }, is: ErrInvalid, text: "follows compaction none"},
		{name: "forgotten previous", compact: true, forget: true, change: func(*turns.Event) {}, is: ErrInvalid, text: "in force is none"},
		{name: "unknown first kept", compact: true, change: func(e *turns.Event) { e.Span.FirstKept = at("t99") }, is: ErrUnknown},
		{name: "first kept elsewhere", compact: true, change: func(e *turns.Event) { e.Span.FirstKept = refOf("B", "b1") }, is: ErrInvalid, text: "not on its path"},
		{name: "saw what it could not", compact: true, change: func(e *turns.Event) { e.Span.SawThrough = refOf("B", "b1") }, is: ErrInvalid, text: "not on its path"},
		{name: "keeps a compaction", compact: true, change: func(e *turns.Event) { e.Span.FirstKept = at("c1") }, is: ErrInvalid, text: "not a normal turn"},
		{name: "keeps what was covered", compact: true, change: func(e *turns.Event) { e.Span.FirstKept, e.Span.Through = at("t3"), at("t2") }, is: ErrInvalid, text: "before the cut"},
		{name: "gap", compact: true, change: func(e *turns.Event) { e.Span.Through = at("t5") }, is: ErrInvalid, text: "last turn before its cut is " + at("t6").String()},
		{name: "overlap", compact: true, change: func(e *turns.Event) { e.Span.Through = at("t8") }, is: ErrInvalid, text: "last turn before its cut"},
		{name: "covers through a compaction", compact: true, change: func(e *turns.Event) { e.Span.Through, e.Span.FirstKept = at("c1"), at("t6") }, is: ErrInvalid, text: "last turn before its cut is " + at("t5").String()},
		{name: "covers none, but leaves some out", compact: true, change: func(e *turns.Event) { e.Span.Through = turns.Ref{} }, is: ErrInvalid, text: "neither covered nor kept"},
		{name: "keeps none, covers not all", compact: true, change: func(e *turns.Event) { e.Span.FirstKept = turns.Ref{} }, is: ErrInvalid, text: "last turn before its cut is " + at("t8").String()},
		{name: "splits two turns", compact: true, change: func(e *turns.Event) { e.Span.Split = true }, is: ErrInvalid, text: "splits"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := line(t)
			e := w.event(idOf("A"), idOf("new"), at("t8"))
			if test.compact {
				e.Kind, e.Halves = turns.KindCompaction, 0
				e.Span = &turns.Span{
					Through: at("t6"), FirstKept: at("t7"), SawThrough: at("t6"), Previous: at("c1"), Provenance: turns.ByNexus,
				}
			}
			test.change(e)
			before := w.Len()
			n, err := w.add(e, test.forget)
			if test.is == nil {
				must(t, err)
				return
			}
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("error = %v; want %v with %q", err, test.is, test.text)
			}
			if (test.is == ErrInvalid) != errors.Is(err, turns.ErrCorrupt) {
				t.Errorf("error = %v: only an invalid event is corrupt", err)
			}
			if n != (Node{}) || w.Len() != before {
				t.Errorf("refused, but gave %v and left %d nodes, had %d", n, w.Len(), before)
			}
		})
	}
}

// TestGrowRefusesTheNodeOfAnotherParent: a caller that passes the wrong node gets an error.
func TestGrowRefusesTheNodeOfAnotherParent(t *testing.T) {
	w := line(t)
	e := w.event(idOf("A"), idOf("new"), refOf("A", "t8"))
	if _, err := Grow(w, w.node(refOf("A", "t7")), e, false); !errors.Is(err, ErrInvalid) {
		t.Errorf("error = %v, want ErrInvalid", err)
	}
}

// TestForestTakesOnlyNodesThatFollow: a forest takes the nodes of another, and no others.
func TestForestTakesOnlyNodesThatFollow(t *testing.T) {
	w := line(t)
	var f Forest
	for _, n := range w.All() {
		must(t, f.Add(n))
	}
	diff(t, "nodes", w.All(), f.All())

	t8 := w.node(refOf("A", "t8"))
	for name, change := range map[string]func(*Node){
		"there already":  func(*Node) {},
		"unknown parent": func(n *Node) { n.Parent = refOf("A", "t99") },
		"depth":          func(n *Node) { n.Ref.Turn = idOf("x"); n.Segment = n.Ref.Turn; n.Depth++ },
		"jump":           func(n *Node) { n.Ref.Turn = idOf("x"); n.Segment = n.Ref.Turn; n.Jump = refOf("A", "t1") },
		"rank":           func(n *Node) { n.Ref.Turn = idOf("x"); n.Segment = n.Ref.Turn; n.Rank-- },
		"opened": func(n *Node) {
			n.Ref.Turn = idOf("x")
			n.Segment = n.Ref.Turn
			n.Rank, n.Opened, n.Above = n.Rank+1, n.Depth-1, n.Parent
		},
		"segment":         func(n *Node) { n.Ref.Turn = idOf("x"); n.Segment = idOf("b1") },
		"segment goes on": func(n *Node) { n.Ref.Turn = idOf("x") },
		"root's segment":  func(n *Node) { *n = Node{Ref: refOf("A", "x"), Depth: 1, Segment: idOf("t1")} },
		"root's depth":    func(n *Node) { *n = Node{Ref: refOf("A", "x"), Depth: 2, Segment: idOf("x")} },
	} {
		n := t8
		change(&n)
		want := ErrInvalid
		if name == "unknown parent" {
			want = ErrUnknown
		}
		if err := f.Add(n); !errors.Is(err, want) {
			t.Errorf("%s: error = %v, want %v", name, err, want)
		}
	}
	if f.Len() != w.Len() {
		t.Errorf("%d nodes after refusals, had %d", f.Len(), w.Len())
	}
}

// bent is a reader that lies about one node.
type bent struct {
	Reader
	ref  turns.Ref
	bend func(*Node)
}

func (b bent) Node(ref turns.Ref) (Node, error) {
	n, err := b.Reader.Node(ref)
	if ref == b.ref {
		b.bend(&n)
	}
	return n, err
}

// blank is a reader that answers with nothing.
type blank struct{}

func (blank) Node(turns.Ref) (Node, error) { return Node{}, nil }

// TestWalksOfABrokenForestEndWithAnError: a store that contradicts itself ends every walk with
// ErrCorrupt; none loops.
func TestWalksOfABrokenForestEndWithAnError(t *testing.T) {
	w := line(t)
	t1, t8, b1 := w.node(refOf("A", "t1")), w.node(refOf("A", "t8")), w.node(refOf("B", "b1"))
	walks := map[string]func(Reader) error{
		"at":         func(r Reader) error { _, err := At(r, t8, 1); return err },
		"ancestor":   func(r Reader) error { _, err := IsAncestor(r, t1, b1); return err },
		"merge base": func(r Reader) error { _, _, err := MergeBase(r, t8, b1); return err },
		"path":       func(r Reader) error { _, err := Path(r, t8, 0); return err },
		"segments":   func(r Reader) error { _, err := Segments(r, b1, 0); return err },
		"chain":      func(r Reader) error { _, err := Chain(r, t8); return err },
		"tokens":     func(r Reader) error { _, err := TokensFrom(r, t8, 2); return err },
	}
	for _, test := range []struct {
		name  string
		r     Reader
		walks string // those that must notice
	}{
		{"empty answers", blank{}, "at, ancestor, merge base, path, segments, chain, tokens"},
		{"cycle by parent", bent{w, refOf("A", "t7"), func(n *Node) { n.Parent = t8.Ref }}, "path"},
		{"cycle by jump", bent{w, t8.Parent, func(n *Node) { n.Jump = t8.Ref }}, "at, tokens"},
		{"depth off", bent{w, t8.Jump, func(n *Node) { n.Depth++ }}, "at, tokens, path"},
		{"rank off", bent{w, b1.Above, func(n *Node) { n.Rank++ }}, "ancestor, merge base, segments"},
		{"segment above begins below", bent{w, b1.Above, func(n *Node) { n.Opened = 99 }}, "ancestor, merge base, segments"},
		{"segment above ends below", bent{w, b1.Above, func(n *Node) { n.Depth = 3 }}, "ancestor, merge base, segments, path"},
		{"segments in a cycle", bent{w, b1.Above, func(n *Node) { *n = b1 }}, "ancestor, merge base, segments, path"},
		{"another node", bent{w, refOf("A", "t1"), func(n *Node) { n.Ref = b1.Ref }}, "at, path, tokens"},
		{"first turn below the others", bent{w, refOf("A", "t1"), func(n *Node) { n.Depth = 99 }}, "at, path, tokens"},
		{"compaction in force is a turn", bent{w, refOf("A", "c1"), func(n *Node) { n.Kind = turns.KindTurn }}, "chain"},
		{"compaction's previous is itself", bent{w, refOf("A", "c1"), func(n *Node) { n.Previous = n.Ref }}, "chain"},
		{"sum shrinks", bent{w, refOf("A", "t1"), func(n *Node) { n.Sum = math.MaxUint64 }}, "tokens"},
	} {
		for name, walk := range walks {
			err := walk(test.r)
			want := slices.Contains(strings.Split(test.walks, ", "), name)
			if errors.Is(err, ErrCorrupt) != want || !want && err != nil {
				t.Errorf("%s: %s: error = %v, want ErrCorrupt: %v", test.name, name, err, want)
			}
		}
	}
	for name, walk := range walks {
		if err := walk(&Forest{}); !errors.Is(err, ErrUnknown) {
			t.Errorf("empty reader: %s: error = %v, want ErrUnknown", name, err)
		}
	}
	for _, d := range []uint64{0, 10} {
		if _, err := At(w, t8, d); !errors.Is(err, ErrUnknown) {
			t.Errorf("At depth %d of 9: error = %v, want ErrUnknown", d, err)
		}
	}
}
