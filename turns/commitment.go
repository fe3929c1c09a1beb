package turns

import (
	"crypto/sha256"
	"fmt"

	"nexus/turns/internal/cbor"
)

// A commitment binds a header to what its body says, part by part: it is the root, by
// RFC 6962 section 2.1, of a tree over salted leaves. Leaf 0 is the body's encoding with
// each part replaced by the 32 bytes of its leaf's hash, as a byte string; the leaves
// after it are the parts, in order (see [PartSpans]).
//
// So one part can be shown with its salt and a path, and checked with SHA-256 alone,
// while the rest stays unknown, because a salt can't be guessed. AES-256-GCM alone does
// not do that: who makes a body can make one that opens to another text under another key.

// Salts gives the salt of each leaf of one event.
type Salts func(leaf int) Hash

// NoSalts are those of an event that is not sealed: zero.
func NoSalts(int) Hash { return Hash{} }

// Commit is the commitment to a body, by its encoding.
// Errors: [ErrMalformed] for bytes that are no body of the kind.
func Commit(kind Kind, body []byte, salts Salts) (Hash, error) {
	hashes, _, _, err := leaves(kind, body, salts)
	if err != nil {
		return Hash{}, err
	}
	return root(hashes), nil
}

// Disclosed is one leaf of a commitment, and what shows that it is one.
type Disclosed struct {
	Leaf  int    // 0: the body without its parts; from 1: a part
	Count int    // of all leaves
	Salt  Hash   //
	Bytes []byte // of the leaf
	Path  []Hash // by RFC 6962 section 2.1.1, from the leaf up
}

// Places returns the hashes that stand for the parts in leaf 0 of a turn or a compaction, in their order: the byte
// strings of 32 that are elements of an array. So who has leaf 0 knows how many parts there are, and where each is.
// Errors: [ErrMalformed].
func Places(leaf0 []byte) (out []Hash, err error) {
	rest, ok := places(leaf0, 0, false, &out)
	if !ok || len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes are no leaf 0", ErrMalformed, len(leaf0))
	}
	return out, nil
}

// places reads a value of CBOR, in deterministic encoding, and returns what is behind it.
func places(b []byte, depth int, element bool, out *[]Hash) (rest []byte, ok bool) {
	n, size := cbor.ItemHead(b)
	if size == 0 || depth > maxPlaces {
		return nil, false
	}
	kind := b[0] >> 5
	b = b[size:]
	switch kind {
	case 2, 3:
		if n > uint64(len(b)) {
			return nil, false
		}
		if kind == 2 && element && n == uint64(len(Hash{})) {
			*out = append(*out, Hash(b[:n]))
		}
		return b[n:], true
	case 4, 5:
		if n > uint64(len(b)) { // each has a byte at least
			return nil, false
		}
		for range n * uint64(kind-3) {
			if b, ok = places(b, depth+1, kind == 4, out); !ok {
				return nil, false
			}
		}
	}
	return b, true
}

// maxPlaces bounds how deep a body is nested: a part of a message of a turn is at 4.
const maxPlaces = 16

// Disclose is a leaf of a body.
// Errors: [ErrMalformed] for bytes that are no body of the kind, and for a leaf that it has not.
func Disclose(kind Kind, body []byte, salts Salts, leaf int) (*Disclosed, error) {
	hashes, outline, spans, err := leaves(kind, body, salts)
	if err != nil {
		return nil, err
	}
	if leaf < 0 || leaf >= len(hashes) {
		return nil, fmt.Errorf("%w: leaf %d of %d", ErrMalformed, leaf, len(hashes))
	}
	d := &Disclosed{Leaf: leaf, Count: len(hashes), Salt: salts(leaf), Bytes: outline, Path: path(hashes, leaf)}
	if leaf > 0 {
		d.Bytes = body[spans[leaf-1][0]:spans[leaf-1][1]]
	}
	return d, nil
}

func hashLeaf(salt Hash, b []byte) Hash {
	h := sha256.New()
	h.Write([]byte{0})
	h.Write(salt[:])
	h.Write(b)
	return Hash(h.Sum(nil))
}

func hashNode(left, right Hash) Hash {
	var b [1 + 2*len(left)]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+len(left):], right[:])
	return sha256.Sum256(b[:])
}

// leaves are the hashes of the leaves of a body, and the bytes of leaf 0.
func leaves(kind Kind, body []byte, salts Salts) (hashes []Hash, outline []byte, spans [][2]int, err error) {
	if spans, err = PartSpans(kind, body); err != nil {
		return nil, nil, nil, err
	}
	hashes = make([]Hash, 1+len(spans))
	for i, span := range spans {
		hashes[i+1] = hashLeaf(salts(i+1), body[span[0]:span[1]])
	}
	outline = outlined(body, spans, hashes)
	hashes[0] = hashLeaf(salts(0), outline)
	return hashes, outline, spans, nil
}

// outlined is leaf 0: a body with the hashes of the leaves in the places of its parts.
func outlined(body []byte, spans [][2]int, hashes []Hash) []byte {
	out := make([]byte, 0, min(len(body), 256+40*len(spans)))
	at := 0
	for i, span := range spans {
		h := hashes[i+1]
		out = append(append(append(out, body[at:span[0]]...), 0x58, byte(len(h))), h[:]...)
		at = span[1]
	}
	return append(out, body[at:]...)
}

func root(hashes []Hash) Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	k := split(len(hashes))
	return hashNode(root(hashes[:k]), root(hashes[k:]))
}

// split is the largest power of two under n, which is over 1.
func split(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

func path(hashes []Hash, leaf int) []Hash {
	if len(hashes) == 1 {
		return nil
	}
	k := split(len(hashes))
	if leaf < k {
		return append(path(hashes[:k], leaf), root(hashes[k:]))
	}
	return append(path(hashes[k:], leaf-k), root(hashes[:k]))
}

// Check checks that the leaf is one of those that commitment is made of. Count is only as
// good as who says it: leaf 0 has the number of parts, if it is shown too.
// Errors: [ErrCorrupt].
func (d *Disclosed) Check(commitment Hash) error {
	if d.Count < 1 || d.Count > MaxElements+1 || d.Leaf < 0 || d.Leaf >= d.Count {
		return fmt.Errorf("%w: leaf %d of %d", ErrCorrupt, d.Leaf, d.Count)
	}
	h, rest, ok := climb(hashLeaf(d.Salt, d.Bytes), d.Leaf, d.Count, d.Path)
	if !ok || len(rest) > 0 || h != commitment {
		return fmt.Errorf("%w: leaf %d is not what the header commits to", ErrCorrupt, d.Leaf)
	}
	return nil
}

// climb is the root of a tree of n leaves by the path of one of them, and what is left of the path.
func climb(h Hash, leaf, n int, path []Hash) (Hash, []Hash, bool) {
	if n == 1 {
		return h, path, true
	}
	k := split(n)
	right := leaf >= k
	var ok bool
	if right {
		h, path, ok = climb(h, leaf-k, n-k, path)
	} else {
		h, path, ok = climb(h, leaf, k, path)
	}
	if !ok || len(path) == 0 {
		return h, nil, false
	}
	if right {
		return hashNode(path[0], h), path[1:], true
	}
	return hashNode(h, path[0]), path[1:], true
}
