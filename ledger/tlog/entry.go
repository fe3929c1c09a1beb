package tlog

import (
	"bytes"
	"fmt"

	"nexus/turns"
)

// LostPayload is what stands at a position whose record was given up. hash is the
// entry that the record had in the tree; zero: nobody knows it. It is no event.
func LostPayload(seq uint64, hash turns.Hash) []byte {
	if hash.IsZero() {
		return fmt.Appendf(nil, `{"lost":%d}`, seq)
	}
	return fmt.Appendf(nil, `{"lost":%d,"hash":%q}`, seq, hash)
}

// Entry is the entry of the record at a position, by its payload as it is stored.
func Entry(seq uint64, payload []byte) turns.Hash {
	if h, ok := lostHash(seq, payload); ok {
		return h
	}
	return turns.HashEvent(payload)
}

// lostHash returns the entry that a payload of [LostPayload] carries. It believes nothing else than
// the very bytes, at their own position.
func lostHash(seq uint64, payload []byte) (turns.Hash, bool) {
	if len(payload) > 200 || !bytes.HasPrefix(payload, []byte(`{"lost":`)) {
		return turns.Hash{}, false
	}
	var x struct {
		Lost uint64     `json:"lost"`
		Hash turns.Hash `json:"hash"`
	}
	if turns.DecodeJSON(payload, &x) != nil || x.Hash.IsZero() || !bytes.Equal(payload, LostPayload(seq, x.Hash)) {
		return turns.Hash{}, false
	}
	return x.Hash, true
}
