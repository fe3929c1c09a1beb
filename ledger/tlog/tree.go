package tlog

import (
	"crypto/sha256"
	"fmt"

	merkle "golang.org/x/mod/sumdb/tlog"

	"nexus/turns"
)

// Band is how many levels apart the levels are that are stored: 0, 8, 16, ….
const Band = 8

// tileSize is how many hashes of a stored level are below one of the next.
const tileSize = 1 << Band

// EmptyRoot is the root of the tree without leaves.
var EmptyRoot = turns.Hash(sha256.Sum256(nil))

// LeafHash is the hash of the leaf with an entry.
func LeafHash(entry turns.Hash) turns.Hash { return turns.Hash(merkle.RecordHash(entry[:])) }

// Hashes reads what is stored of a tree.
type Hashes interface {
	// Hashes returns the hashes [n, n+count) of a stored level, from left to right. It fails if
	// one is missing.
	Hashes(level int, n, count uint64) ([]turns.Hash, error)
}

// Frontier is the right edge of a tree: what the next leaf needs. The zero Frontier is that of the
// empty tree. For use by one goroutine; [Frontier.Clone] it where two go on from it.
type Frontier struct {
	size  uint64
	peaks []turns.Hash // the roots of the full subtrees, the largest first: one for each bit of size
}

// Size is the number of leaves.
func (f *Frontier) Size() uint64 { return f.size }

// Clone returns a frontier that shares nothing with f.
func (f *Frontier) Clone() Frontier {
	return Frontier{f.size, append(make([]turns.Hash, 0, len(f.peaks)+2), f.peaks...)}
}

// Append adds a leaf by its entry. put is called for each hash that is to be stored.
func (f *Frontier) Append(entry turns.Hash, put func(level int, n uint64, h turns.Hash) error) error {
	return f.AppendLeaf(LeafHash(entry), put)
}

// AppendLeaf is Append of a leaf by its hash.
func (f *Frontier) AppendLeaf(h turns.Hash, put func(level int, n uint64, h turns.Hash) error) error {
	if err := put(0, f.size, h); err != nil {
		return err
	}
	level := 0
	for ; f.size>>level&1 == 1; level++ {
		last := len(f.peaks) - 1
		h, f.peaks = nodeHash(f.peaks[last], h), f.peaks[:last]
		if above := level + 1; above%Band == 0 {
			if err := put(above, f.size>>above, h); err != nil {
				return err
			}
		}
	}
	f.peaks = append(f.peaks, h)
	f.size++
	return nil
}

// Root is the root of the tree.
func (f *Frontier) Root() turns.Hash {
	if f.size == 0 {
		return EmptyRoot
	}
	last := len(f.peaks) - 1
	h := f.peaks[last]
	for i := last - 1; i >= 0; i-- {
		h = nodeHash(f.peaks[i], h)
	}
	return h
}

// LoadFrontier reads the right edge of the tree of size leaves.
func LoadFrontier(h Hashes, size uint64) (Frontier, error) {
	f, b := Frontier{size: size}, newBands(h, size)
	at := uint64(0)
	for level := 63; level >= 0; level-- {
		if size>>level&1 == 0 {
			continue
		}
		p, err := b.hash(level, at>>level)
		if err != nil {
			return Frontier{}, err
		}
		f.peaks = append(f.peaks, p)
		at += 1 << level
	}
	return f, nil
}

// Root is the root of the first size leaves.
func Root(h Hashes, size uint64) (turns.Hash, error) {
	f, err := LoadFrontier(h, size)
	if err != nil {
		return turns.Hash{}, err
	}
	return f.Root(), nil
}

// Inclusion is the path from leaf index to the root of the first size leaves, from the leaf up.
// Errors: [turns.ErrMalformed] if there is no such leaf; those of h.
func Inclusion(h Hashes, index, size uint64) ([]turns.Hash, error) {
	if index >= size || size > maxSize {
		return nil, fmt.Errorf("%w: leaf %d of a tree of %d", turns.ErrMalformed, index, size)
	}
	p, err := merkle.ProveRecord(int64(size), int64(index), newBands(h, size))
	return ours(p), err
}

// CheckInclusion checks that an entry is leaf index of the tree of size leaves with a root.
// Errors: [turns.ErrCorrupt].
func CheckInclusion(path []turns.Hash, index, size uint64, root, entry turns.Hash) error {
	if index >= size || size > maxSize {
		return fmt.Errorf("%w: leaf %d of a tree of %d", turns.ErrCorrupt, index, size)
	}
	if err := merkle.CheckRecord(theirs(path), int64(size), merkle.Hash(root), int64(index), merkle.Hash(LeafHash(entry))); err != nil {
		return fmt.Errorf("%w: the event is not leaf %d of the tree of %d", turns.ErrCorrupt, index, size)
	}
	return nil
}

// Consistency shows that the tree of size leaves begins with that of old.
// Errors: [turns.ErrMalformed] if old is greater; those of h.
func Consistency(h Hashes, old, size uint64) ([]turns.Hash, error) {
	if old > size || size > maxSize {
		return nil, fmt.Errorf("%w: a tree of %d can't continue one of %d", turns.ErrMalformed, size, old)
	}
	if old == 0 || old == size {
		return nil, nil
	}
	p, err := merkle.ProveTree(int64(size), int64(old), newBands(h, size))
	return ours(p), err
}

// CheckConsistency checks that the tree of size leaves with root begins with that of old leaves with
// oldRoot. Errors: [turns.ErrCorrupt].
func CheckConsistency(path []turns.Hash, old uint64, oldRoot turns.Hash, size uint64, root turns.Hash) error {
	bad := fmt.Errorf("%w: the tree of %d is not a continuation of the one of %d", turns.ErrCorrupt, size, old)
	switch {
	case old > size || size > maxSize:
		return bad
	case old == 0 || old == size:
		if len(path) > 0 || old == 0 && oldRoot != EmptyRoot || old == size && oldRoot != root {
			return bad
		}
		return nil
	}
	if merkle.CheckTree(theirs(path), int64(size), merkle.Hash(root), int64(old), merkle.Hash(oldRoot)) != nil {
		return bad
	}
	return nil
}

// maxSize bounds trees: the library counts hashes of all levels in 63 bits.
const maxSize = 1 << 61

// bands reads any hash of the tree of size leaves, from the levels that are stored.
type bands struct {
	from  Hashes
	size  uint64
	tiles map[[2]uint64][]turns.Hash // by level and number: each is read once
}

func newBands(h Hashes, size uint64) *bands {
	return &bands{h, size, make(map[[2]uint64][]turns.Hash)}
}

// ReadHashes implements [merkle.HashReader].
func (b *bands) ReadHashes(indexes []int64) ([]merkle.Hash, error) {
	out := make([]merkle.Hash, len(indexes))
	for i, at := range indexes {
		level, n := merkle.SplitStoredHashIndex(at)
		h, err := b.hash(level, uint64(n))
		if err != nil {
			return nil, err
		}
		out[i] = merkle.Hash(h)
	}
	return out, nil
}

// hash returns the hash of a full node.
func (b *bands) hash(level int, n uint64) (turns.Hash, error) {
	within := level % Band
	stored := level - within
	tile, err := b.tile(stored, n>>(Band-within))
	if err != nil {
		return turns.Hash{}, err
	}
	lo := n << within % tileSize
	if hi := lo + 1<<within; hi > uint64(len(tile)) {
		return turns.Hash{}, fmt.Errorf("%w: node %d of level %d is not in a tree of %d", turns.ErrCorrupt, n, level, b.size)
	}
	return full(tile[lo : lo+1<<within]), nil
}

// tile returns the hashes of a stored level below a node of the next one: fewer than 256 at
// the right edge.
func (b *bands) tile(stored int, number uint64) ([]turns.Hash, error) {
	key := [2]uint64{uint64(stored), number}
	if t, ok := b.tiles[key]; ok {
		return t, nil
	}
	first, there := number*tileSize, b.size>>stored
	if first >= there {
		return nil, fmt.Errorf("%w: hash %d of level %d is not in a tree of %d", turns.ErrCorrupt, first, stored, b.size)
	}
	t, err := b.from.Hashes(stored, first, min(tileSize, there-first))
	if err != nil {
		return nil, err
	}
	b.tiles[key] = t
	return t, nil
}

// full is the root of a full subtree over hashes, whose number is a power of two.
func full(hashes []turns.Hash) turns.Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	k := len(hashes) / 2
	return nodeHash(full(hashes[:k]), full(hashes[k:]))
}

func nodeHash(left, right turns.Hash) turns.Hash {
	return turns.Hash(merkle.NodeHash(merkle.Hash(left), merkle.Hash(right)))
}

func ours(p []merkle.Hash) []turns.Hash {
	out := make([]turns.Hash, len(p))
	for i, h := range p {
		out[i] = turns.Hash(h)
	}
	return out
}

func theirs(p []turns.Hash) []merkle.Hash {
	out := make([]merkle.Hash, len(p))
	for i, h := range p {
		out[i] = merkle.Hash(h)
	}
	return out
}
