package tlog

import (
	"bytes"
	"fmt"

	"nexus/turns"
)

// LostPayload is what stands at a position whose record was given up. leaf is the hash of the leaf
// that the record had in the tree; zero: nobody knows it. It is no event.
func LostPayload(seq uint64, leaf turns.Hash) []byte {
	if leaf.IsZero() {
		return fmt.Appendf(nil, `{"lost":%d}`, seq)
	}
	return fmt.Appendf(nil, `{"lost":%d,"leaf":%q}`, seq, leaf)
}

// Leaf is the hash of the leaf of the record at a position, by its payload as it is stored.
func Leaf(seq uint64, payload []byte) turns.Hash {
	if h, ok := lostLeaf(seq, payload); ok {
		return h
	}
	return LeafHash(turns.HashEvent(payload))
}

// lostLeaf returns the leaf that a payload of [LostPayload] carries. It believes nothing else than
// the very bytes, at their own position.
func lostLeaf(seq uint64, payload []byte) (turns.Hash, bool) {
	if len(payload) > 200 || !bytes.HasPrefix(payload, []byte(`{"lost":`)) {
		return turns.Hash{}, false
	}
	var x struct {
		Lost uint64     `json:"lost"`
		Leaf turns.Hash `json:"leaf"`
	}
	if turns.DecodeJSON(payload, &x) != nil || x.Leaf.IsZero() || !bytes.Equal(payload, LostPayload(seq, x.Leaf)) {
		return turns.Hash{}, false
	}
	return x.Leaf, true
}
