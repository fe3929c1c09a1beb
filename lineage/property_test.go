package lineage

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"nexus/turns"
)

// counter counts what a reader is asked.
type counter struct {
	Reader
	nodes int
}

func (c *counter) Node(ref turns.Ref) (Node, error) {
	c.nodes++
	return c.Reader.Node(ref)
}

// stepBound returns the most steps of a walk from depth d: 3*floor(log2 d)+1.
func stepBound(d uint64) int { return 3*int(math.Log2(float64(max(d, 1)))) + 1 }

type session struct {
	id   turns.ID
	full bool
}

// drawWorld draws a forest with roots, forks of both kinds, moved heads, and
// compactions that split, elide, drop, keep nothing or cover nothing.
func drawWorld(t *rapid.T) (*world, []turns.Ref) {
	w := newWorld()
	var all []turns.Ref
	sessions := []session{{id: idOf("s0")}}
	last := map[turns.ID]turns.Ref{}
	for i := range rapid.IntRange(1, 60).Draw(t, "turns") {
		s := sessions[rapid.IntRange(0, len(sessions)-1).Draw(t, "session")]
		parent := last[s.id]
		if op := rapid.IntRange(0, 9).Draw(t, "op"); op <= 2 && len(all) > 0 { // fork, or move the head
			if op < 2 {
				s = session{idOf(fmt.Sprintf("s%d", len(sessions))), rapid.Bool().Draw(t, "full")}
				sessions = append(sessions, s)
			}
			parent = rapid.SampledFrom(all).Draw(t, "at")
		}
		forget := s.full && !parent.IsZero() && parent.Session != s.id
		id := idOf(fmt.Sprint("t", i))
		var e *turns.Event
		if parent.IsZero() || rapid.IntRange(0, 3).Draw(t, "compact") > 0 {
			e = w.event(s.id, id, parent)
			e.Halves = turns.Halves(rapid.IntRange(1, 3).Draw(t, "halves"))
			if e.Halves.Has(turns.MessagesHalf) {
				e.Tokens.Messages = uint64(rapid.IntRange(0, 9).Draw(t, "messages"))
			}
			if e.Halves.Has(turns.ResponseHalf) {
				e.Tokens.Response = uint64(rapid.IntRange(0, 9).Draw(t, "response"))
			}
		} else {
			e = drawCompaction(t, w, s.id, id, parent, forget)
		}
		n, err := w.add(e, forget)
		if err != nil {
			t.Fatalf("a legal event is refused: %v", err)
		}
		all = append(all, n.Ref)
		last[s.id] = n.Ref
	}
	return w, all
}

func drawCompaction(t *rapid.T, w *world, s, id turns.ID, parent turns.Ref, forget bool) *turns.Event {
	kept := 0
	for _, c := range w.slowCover(parent) {
		if forget || c.State == Verbatim || c.State == Elided {
			kept++
		}
	}
	keep := rapid.IntRange(0, kept).Draw(t, "keep")
	e := w.compactionAt(s, id, parent, forget, keep, func(int) bool { return rapid.Bool().Draw(t, "elide") })
	if keep == 0 && !e.Span.Split && rapid.Bool().Draw(t, "covers none") {
		e.Span.Through = turns.Ref{}
		if rapid.Bool().Draw(t, "names none") {
			e.Span.FirstKept = turns.Ref{}
		}
	}
	if rapid.Bool().Draw(t, "imported") {
		e.Span.Provenance = turns.Imported
		e.Span.Dropped = rapid.Bool().Draw(t, "dropped")
	}
	return e
}

func TestAgreesWithTwins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, all := drawWorld(t)
		for _, ref := range all {
			checkNode(t, w, ref)
		}
		for range 20 {
			a, b := rapid.SampledFrom(all).Draw(t, "a"), rapid.SampledFrom(all).Draw(t, "b")
			checkPair(t, w, a, b)
		}
	})
}

// checkNode compares everything that concerns one turn with the twins.
func checkNode(t *rapid.T, w *world, ref turns.Ref) {
	n, path, chain := w.node(ref), w.slowPath(ref), w.slowChain(ref)
	var inForce turns.Ref
	if len(chain) > 0 {
		inForce = chain[0]
	}
	if n.Depth != uint64(len(path)) || n.Compaction != inForce || n.Sum != w.slowTokens(ref, 0, math.MaxUint64) {
		t.Fatalf("node %+v\nwant depth %d, compaction %s, sum %d", n, len(path), inForce, w.slowTokens(ref, 0, math.MaxUint64))
	}
	wantCycle, wantAfter := w.slowCycle(ref)
	cycle, after, err := Cycle(w, n, false)
	must(t, err)
	if cycle != wantCycle || after != wantAfter {
		t.Fatalf("node %+v\nin cycle %d after %s, want %d after %s", n, cycle, after, wantCycle, wantAfter)
	}
	got, err := Path(w, n, 0)
	must(t, err)
	diff(t, "path", w.nodesOf(path), got)

	for d := uint64(1); d <= n.Depth; d++ {
		c := &counter{Reader: w}
		at, err := At(c, n, d)
		must(t, err)
		if at.Ref != path[d-1] || c.nodes > stepBound(n.Depth) {
			t.Fatalf("At depth %d of %d = %s by %d nodes, want %s in at most %d", d, n.Depth, at.Ref, c.nodes, path[d-1], stepBound(n.Depth))
		}
	}
	lo := uint64(rapid.IntRange(0, int(n.Depth)+1).Draw(t, "lo"))
	ranges, err := Segments(w, n, lo)
	must(t, err)
	diff(t, "segments", w.slowSegments(ref, lo), ranges)

	got, err = Chain(w, n)
	must(t, err)
	diff(t, "compactions", w.nodesOf(chain), got)

	var elisions []turns.Elision
	if len(chain) > 0 {
		elisions = w.events[chain[0]].Span.Elisions
	}
	full, err := Path(w, n, 0)
	must(t, err)
	must(t, CheckCoverage(full, got, elisions))
	states := Cover(full, got, ElidedBy(elisions))
	diff(t, "coverage", w.slowCover(ref), states)
	if lo >= 1 && lo <= n.Depth { // a stretch reads as the whole does
		tail := []HalfState{}
		for _, s := range states {
			if s.Depth >= lo {
				tail = append(tail, s)
			}
		}
		diff(t, "coverage of a stretch", tail, Cover(full[lo-1:], got, ElidedBy(elisions)))
	}

	from := Cut(rapid.IntRange(0, 2*len(path)+3).Draw(t, "from"))
	to := Cut(rapid.IntRange(0, 2*len(path)+3).Draw(t, "to"))
	sum, err := TokensFrom(w, n, from)
	must(t, err)
	rest, err := TokensFrom(w, n, max(from, to))
	must(t, err)
	sum -= rest
	if want := w.slowTokens(ref, from, to); sum != want {
		t.Fatalf("tokens of %s in [%d, %d) = %d, want %d", ref, from, to, sum, want)
	}
}

func checkPair(t *rapid.T, w *world, a, b turns.Ref) {
	want := w.slowMergeBase(a, b)
	base, ok, err := MergeBase(w, w.node(a), w.node(b))
	must(t, err)
	if base.Ref != want || ok == want.IsZero() {
		t.Fatalf("merge base of %s and %s = %s, %v; want %s", a, b, base.Ref, ok, want)
	}
	is, err := IsAncestor(w, w.node(a), w.node(b))
	must(t, err)
	if is != (want == a) {
		t.Fatalf("%s is an ancestor of %s: %v, want %v", a, b, is, want == a)
	}
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func diff(t interface {
	Helper()
	Fatalf(string, ...any)
}, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), ignoreBlank); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// ignoreBlank compares references, whose blank field cmp can't look into.
var ignoreBlank = cmp.Comparer(func(a, b turns.Ref) bool { return a.Compare(b) == 0 })

// TestJumpDepthAgreesWithMyersRule compares the arithmetic with Myers's rule, which needs the
// whole chain.
func TestJumpDepthAgreesWithMyersRule(t *testing.T) {
	jump := []uint64{0, 1} // by depth; here a root jumps to itself
	for d := uint64(2); d < 1<<16; d++ {
		p := d - 1
		j := jump[p]
		to := p
		if p-j == j-jump[j] {
			to = jump[j]
		}
		jump = append(jump, to)
		if got := JumpDepth(d); got != to {
			t.Fatalf("JumpDepth(%d) = %d, want %d", d, got, to)
		}
	}
	if JumpDepth(0) != 0 || JumpDepth(1) != 0 {
		t.Errorf("JumpDepth of none and of a root = %d, %d; want 0, 0", JumpDepth(0), JumpDepth(1))
	}
}

// TestNoWalkTakesMoreStepsThanItsBound counts the steps of every walk from every depth up to 2^12.
func TestNoWalkTakesMoreStepsThanItsBound(t *testing.T) {
	for d := uint64(1); d <= 1<<12; d++ {
		for to := uint64(1); to <= d; to++ {
			steps := 0
			for at := d; at > to; steps++ {
				if j := JumpDepth(at); j >= to {
					at = j
				} else {
					at--
				}
			}
			if steps > stepBound(d) {
				t.Fatalf("from depth %d to %d in %d steps, want at most %d", d, to, steps, stepBound(d))
			}
		}
	}
}
