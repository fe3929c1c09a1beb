package tlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"nexus/turns"
)

// stored is a tree in memory.
type stored map[[2]uint64]turns.Hash

func (s stored) set(level int, n uint64, h turns.Hash) error {
	k := [2]uint64{uint64(level), n}
	if _, ok := s[k]; ok {
		return fmt.Errorf("hash %d of level %d is put twice", n, level)
	}
	s[k] = h
	return nil
}

func (s stored) Hashes(level int, n, count uint64) (out []turns.Hash, err error) {
	for i := n; i < n+count; i++ {
		h, ok := s[[2]uint64{uint64(level), i}]
		if !ok {
			return nil, fmt.Errorf("%w: no hash %d of level %d", turns.ErrCorrupt, i, level)
		}
		out = append(out, h)
	}
	return out, nil
}

func entry(i uint64) turns.Hash {
	return turns.Digest("test", binary.BigEndian.AppendUint64(nil, i))
}

func grown(t testing.TB, size uint64) (stored, Frontier) {
	s, f := stored{}, Frontier{}
	for i := range size {
		if err := f.Append(entry(i), s.set); err != nil {
			t.Fatal(err)
		}
	}
	return s, f
}

// plainRoot is RFC 6962, section 2.1, word for word.
func plainRoot(entries []turns.Hash) turns.Hash {
	switch len(entries) {
	case 0:
		return EmptyRoot
	case 1:
		return LeafHash(entries[0])
	}
	k := 1
	for 2*k < len(entries) {
		k *= 2
	}
	return nodeHash(plainRoot(entries[:k]), plainRoot(entries[k:]))
}

var sizes = []uint64{0, 1, 2, 3, 4, 5, 7, 8, 9, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1000, 65535, 65536, 65537, 70000}

func TestTheTreeIsThatOfRFC6962(t *testing.T) {
	s, edge := stored{}, Frontier{}
	var all []turns.Hash
	for _, size := range sizes {
		for uint64(len(all)) < size {
			all = append(all, entry(uint64(len(all))))
			if err := edge.Append(all[len(all)-1], s.set); err != nil {
				t.Fatal(err)
			}
		}
		want := plainRoot(all)
		if got := edge.Root(); got != want {
			t.Errorf("size %d: the edge has root %v, want %v", size, got, want)
		}
		if got, err := Root(s, size); err != nil || got != want {
			t.Errorf("size %d: %v, %v, want %v", size, got, err, want)
		}
		loaded, err := LoadFrontier(s, size)
		if err != nil || loaded.Root() != want || loaded.Size() != size {
			t.Errorf("size %d: loaded %v, %v", size, loaded.Size(), err)
		}
	}
	// What is stored: the leaves, and one hash for 256 of a stored level.
	want := len(all) + len(all)/256 + len(all)/65536
	if len(s) != want {
		t.Errorf("%d hashes are stored, want %d", len(s), want)
	}
	// Every size below, from the rows of the larger tree.
	for size := uint64(1); size < 600; size++ {
		if got, err := Root(s, size); err != nil || got != plainRoot(all[:size]) {
			t.Fatalf("size %d of a larger tree: %v, %v", size, got, err)
		}
	}
}

func TestInclusionProofs(t *testing.T) {
	s, _ := grown(t, 70000)
	for _, size := range sizes[1:] {
		root, err := Root(s, size)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []uint64{0, 1, size / 3, size / 2, size - 2, size - 1} {
			if i >= size {
				continue
			}
			p, err := Inclusion(s, i, size)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckInclusion(p, i, size, root, entry(i)); err != nil {
				t.Errorf("leaf %d of %d: %v", i, size, err)
			}
			for what, err := range map[string]error{
				"another entry": CheckInclusion(p, i, size, root, entry(i+1)),
				"another index": CheckInclusion(p, i+1, size, root, entry(i)),
				"another root":  CheckInclusion(p, i, size, entry(0), entry(i)),
				"a longer path": CheckInclusion(append(p, entry(1)), i, size, root, entry(i)),
			} {
				if !errors.Is(err, turns.ErrCorrupt) {
					t.Errorf("leaf %d of %d, %s: %v", i, size, what, err)
				}
			}
			if size > 1 {
				if err := CheckInclusion(p[:len(p)-1], i, size, root, entry(i)); !errors.Is(err, turns.ErrCorrupt) {
					t.Errorf("leaf %d of %d, a shorter path: %v", i, size, err)
				}
			}
		}
	}
	if _, err := Inclusion(s, 5, 5); !errors.Is(err, turns.ErrMalformed) {
		t.Errorf("a leaf that is not there: %v", err)
	}
}

func TestConsistencyProofs(t *testing.T) {
	s, _ := grown(t, 70000)
	roots := map[uint64]turns.Hash{}
	for _, size := range sizes {
		roots[size], _ = Root(s, size)
	}
	for _, old := range sizes {
		for _, size := range sizes {
			p, err := Consistency(s, old, size)
			if old > size {
				if !errors.Is(err, turns.ErrMalformed) {
					t.Errorf("%d to %d: %v", old, size, err)
				}
				if err := CheckConsistency(p, old, roots[old], size, roots[size]); !errors.Is(err, turns.ErrCorrupt) {
					t.Errorf("%d to %d is taken: %v", old, size, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckConsistency(p, old, roots[old], size, roots[size]); err != nil {
				t.Errorf("%d to %d: %v", old, size, err)
			}
			if err := CheckConsistency(p, old, entry(9), size, roots[size]); !errors.Is(err, turns.ErrCorrupt) {
				t.Errorf("%d to %d, another old root: %v", old, size, err)
			}
			if old > 0 {
				if err := CheckConsistency(p, old, roots[old], size, entry(9)); !errors.Is(err, turns.ErrCorrupt) {
					t.Errorf("%d to %d, another root: %v", old, size, err)
				}
			}
		}
	}
}

// A replacement has the leaf of what was lost, at its own position and in its own bytes only.
func TestAReplacementKeepsTheLostLeaf(t *testing.T) {
	lost := entry(7)
	p := LostPayload(12, lost)
	if got := Leaf(12, p); got != lost {
		t.Errorf("%v, want %v", got, lost)
	}
	for what, x := range map[string]struct {
		seq uint64
		b   []byte
	}{
		"another position": {13, p},
		"a space":          {12, append([]byte(nil), append(p[:len(p)-1:len(p)-1], ' ', '}')...)},
		"no hash":          {12, LostPayload(12, turns.Hash{})},
		"a zero hash":      {12, fmt.Appendf(nil, `{"lost":12,"leaf":%q}`, turns.Hash{})},
		"another member":   {12, fmt.Appendf(nil, `{"lost":12,"leaf":%q,"x":1}`, lost)},
	} {
		if got := Leaf(x.seq, x.b); got != LeafHash(turns.HashEvent(x.b)) {
			t.Errorf("%s: %v", what, got)
		}
	}
}
