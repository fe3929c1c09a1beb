package lineage

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"nexus/turns"
)

// number returns the ID with n in its last bytes.
func number(n uint64) (id turns.ID) {
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

const bigTurns, bigForks = 100_000, 1_000

// bigWorld grows a forest of bigTurns turns in bigForks+1 sessions from one
// seed. Half of the turns are session 1's, so that paths are long; a fork comes
// every hundred turns, anywhere, and each tenth forgets; sessions compact now
// and then, keeping up to six halves; heads move back now and then.
func bigWorld(t *testing.T) (*world, []turns.Ref) {
	rng := rand.New(rand.NewPCG(1983, 13))
	w := newWorld()
	var all []turns.Ref
	last := []turns.Ref{{}} // by session
	full := []bool{false}
	for i := range uint64(bigTurns) {
		s := 0
		if rng.IntN(2) == 0 {
			s = rng.IntN(len(last))
		}
		parent := last[s]
		if i%(bigTurns/bigForks) == 1 {
			s, parent = len(last), all[rng.IntN(len(all))]
			last, full = append(last, parent), append(full, len(last)%10 == 0)
		} else if rng.IntN(200) == 0 && !parent.IsZero() {
			d := w.node(parent).Depth
			n, err := At(w, w.node(parent), d-rng.Uint64N(min(d, 20)))
			must(t, err)
			parent = n.Ref
		}
		forget := full[s] && parent.Session != number(uint64(s+1))
		e := w.event(number(uint64(s+1)), number(i+1), parent)
		e.Tokens = turns.Tokens{Messages: rng.Uint64N(1000), Response: rng.Uint64N(1000)}
		if rng.IntN(100) == 0 && i > 0 && !forget {
			compactNear(t, w, e, rng.IntN(7))
		}
		n, err := w.add(e, forget)
		must(t, err)
		all, last[s] = append(all, n.Ref), n.Ref
	}
	if len(last) != bigForks+1 {
		t.Fatalf("%d sessions, want %d", len(last), bigForks+1)
	}
	return w, all
}

// compactNear turns e into a compaction that keeps at most keep of the last
// halves of its path, without going behind the cut in force.
func compactNear(t *testing.T, w *world, e *turns.Event, keep int) {
	e.Kind, e.Halves, e.Tokens = turns.KindCompaction, 0, turns.Tokens{Messages: 7}
	p := w.node(e.Parent)
	chain, err := Chain(w, p)
	must(t, err)
	e.Span = &turns.Span{Provenance: turns.ByNexus, Previous: p.Compaction}
	var floor Cut
	if len(chain) > 0 {
		floor = chain[0].Cut
	}
	// The last covered half is the first from the end that is not kept.
	for at := p; ; at = w.node(at.Parent) {
		for _, h := range []turns.Half{turns.ResponseHalf, turns.MessagesHalf} {
			if at.Kind != turns.KindTurn {
				break
			}
			if keep == 0 || CutBefore(at.Depth, h) < floor {
				e.Span.Through, e.Span.Split = at.Ref, at.Ref == e.Span.FirstKept
				return
			}
			e.Span.FirstKept = at.Ref
			keep--
		}
		if at.Parent.IsZero() {
			return // everything is kept
		}
	}
}

// TestWalksOfABigForestAgreeWithTheTwins compares samples of a forest of 10^5 turns and 10^3 forks with
// the twins, and holds the walks to their bounds.
func TestWalksOfABigForestAgreeWithTheTwins(t *testing.T) {
	w, all := bigWorld(t)
	rng := rand.New(rand.NewPCG(1, 2))
	var worstAt, worstBase, deepest int
	var rank uint64
	for range 150 {
		a, b := w.node(all[rng.IntN(len(all))]), w.node(all[rng.IntN(len(all))])
		path := w.slowPath(a.Ref)
		deepest, rank = max(deepest, len(path)), max(rank, a.Rank)

		for range 50 {
			d := 1 + rng.Uint64N(a.Depth)
			c := &counter{Reader: w}
			at, err := At(c, a, d)
			must(t, err)
			if at.Ref != path[d-1] {
				t.Fatalf("At depth %d of %s = %s, want %s", d, a.Ref, at.Ref, path[d-1])
			}
			if c.nodes > stepBound(a.Depth) {
				t.Fatalf("At depth %d of %d read %d nodes, want at most %d", d, a.Depth, c.nodes, stepBound(a.Depth))
			}
			worstAt = max(worstAt, c.nodes)
		}

		c := &counter{Reader: w}
		base, _, err := MergeBase(c, a, b)
		must(t, err)
		if want := w.slowMergeBase(a.Ref, b.Ref); base.Ref != want {
			t.Fatalf("merge base of %s and %s = %s, want %s", a.Ref, b.Ref, base.Ref, want)
		}
		if bound := 3 * stepBound(max(a.Rank, b.Rank)); c.nodes > bound {
			t.Fatalf("merge base of ranks %d and %d read %d nodes, want at most %d", a.Rank, b.Rank, c.nodes, bound)
		}
		worstBase = max(worstBase, c.nodes)

		for _, x := range []turns.Ref{b.Ref, path[rng.IntN(len(path))]} {
			c := &counter{Reader: w}
			is, err := IsAncestor(c, w.node(x), a)
			must(t, err)
			if is != slices.Contains(path, x) {
				t.Fatalf("%s is an ancestor of %s: %v", x, a.Ref, is)
			}
			if bound := stepBound(a.Rank); c.nodes > bound {
				t.Fatalf("is ancestor, of rank %d, read %d nodes, want at most %d", a.Rank, c.nodes, bound)
			}
		}

		lo := rng.Uint64N(a.Depth + 1)
		c = &counter{Reader: w}
		ranges, err := Segments(c, a, lo)
		must(t, err)
		diff(t, "segments", w.slowSegments(a.Ref, lo), ranges)
		if c.nodes >= max(len(ranges), 1) {
			t.Fatalf("%d segments read %d nodes", len(ranges), c.nodes)
		}
		checkBigCoverage(t, w, a)
	}
	t.Logf("deepest path %d, of %d segments; worst At %d nodes, worst MergeBase %d", deepest, rank, worstAt, worstBase)
}

func checkBigCoverage(t *testing.T, w *world, n Node) {
	path, err := Path(w, n, 0)
	must(t, err)
	chain, err := Chain(w, n)
	must(t, err)
	must(t, CheckCoverage(path, chain, nil))
	// The twin walks the whole path at each compaction: only where that is few.
	if len(path)*len(chain) <= 1_000_000 {
		if d := cmp.Diff(w.slowCover(n.Ref), Cover(path, chain, nil), ignoreBlank); d != "" {
			t.Fatalf("coverage of %s (-want +got):\n%s", n.Ref, d)
		}
	}
	if len(chain) > 0 {
		sum, err := TokensFrom(w, n, chain[0].Cut)
		must(t, err)
		if want := w.slowTokens(n.Ref, chain[0].Cut, CutBefore(n.Depth+1, turns.MessagesHalf)); sum != want {
			t.Fatalf("tokens kept at %s = %d, want %d", n.Ref, sum, want)
		}
	}
}
