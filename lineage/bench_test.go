package lineage

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"nexus/turns"
)

// ladder is a reader of two branches that part after depth fork, as deep as
// one asks: its nodes are computed, so that a benchmark counts the walk and not
// a store. Branch 1 is above the fork too.
type ladder struct{ fork uint64 }

func (l ladder) ref(branch, d uint64) turns.Ref {
	switch {
	case d == 0:
		return turns.Ref{}
	case d <= l.fork:
		branch = 1
	}
	return turns.Ref{Session: number(branch), Turn: number(d)}
}

func (l ladder) node(branch, d uint64) Node {
	n := Node{
		Ref: l.ref(branch, d), Parent: l.ref(branch, d-1), Jump: l.ref(branch, JumpDepth(d)),
		Depth: d, Kind: turns.KindTurn, Segment: number(1), Rank: 1, Opened: 1,
	}
	if branch > 1 && d > l.fork {
		n.Segment, n.Rank, n.Opened, n.Above, n.AboveJump = number(branch), 2, l.fork+1, l.ref(1, l.fork), l.ref(1, l.fork)
	}
	return n
}

func (l ladder) Node(ref turns.Ref) (Node, error) {
	return l.node(binary.BigEndian.Uint64(ref.Session[8:]), binary.BigEndian.Uint64(ref.Turn[8:])), nil
}

var depths = []uint64{1e3, 1e4, 1e5, 1e6}

// report gives the nodes that each operation read.
func report(b *testing.B, c *counter) {
	b.ReportMetric(float64(c.nodes)/float64(b.N), "nodes/op")
}

func BenchmarkAt(b *testing.B) {
	for _, d := range depths {
		b.Run(fmt.Sprintf("depth=%d", d), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			c := &counter{Reader: ladder{}}
			n := ladder{}.node(1, d)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := At(c, n, 1+rng.Uint64N(d)); err != nil {
					b.Fatal(err)
				}
			}
			report(b, c)
		})
	}
}

func BenchmarkIsAncestor(b *testing.B) {
	for _, d := range depths {
		b.Run(fmt.Sprintf("depth=%d", d), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			c := &counter{Reader: ladder{}}
			n := ladder{}.node(1, d)
			b.ReportAllocs()
			for b.Loop() {
				if is, err := IsAncestor(c, ladder{}.node(1, 1+rng.Uint64N(d)), n); !is || err != nil {
					b.Fatal(is, err)
				}
			}
			report(b, c)
		})
	}
}

func BenchmarkMergeBase(b *testing.B) {
	for _, d := range depths {
		b.Run(fmt.Sprintf("depth=%d", d), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			c := &counter{}
			b.ReportAllocs()
			for b.Loop() {
				l := ladder{fork: 1 + rng.Uint64N(d/2)}
				c.Reader = l
				base, _, err := MergeBase(c, l.node(1, d), l.node(2, l.fork+rng.Uint64N(d-l.fork)))
				if err != nil || base.Depth != l.fork {
					b.Fatal(base, err)
				}
			}
			report(b, c)
		})
	}
}

// BenchmarkForest is At over a Forest, memory misses and all.
func BenchmarkForest(b *testing.B) {
	for _, d := range depths {
		b.Run(fmt.Sprintf("depth=%d", d), func(b *testing.B) {
			var f Forest
			l := ladder{}
			for i := uint64(1); i <= d; i++ {
				n := l.node(1, i)
				if err := f.Add(n); err != nil {
					b.Fatal(err)
				}
			}
			rng := rand.New(rand.NewPCG(1, 2))
			c := &counter{Reader: &f}
			n := l.node(1, d)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := At(c, n, 1+rng.Uint64N(d)); err != nil {
					b.Fatal(err)
				}
			}
			report(b, c)
		})
	}
}
