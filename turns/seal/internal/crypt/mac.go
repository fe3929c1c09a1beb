package crypt

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// MAC returns the HMAC-SHA-256 of parts, each after its length in 8 bytes, most
// significant first: ("ab","c") and ("a","bc") differ.
func MAC(k Key, parts ...[]byte) [sha256.Size]byte {
	// crypto/hmac allocates nine objects for what one hash and two blocks on the stack do
	// (RFC 2104; the key is half a block).
	var inner [sha256.BlockSize]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	copy(inner[:], k[:])
	copy(outer[:], k[:])
	for i := range inner {
		inner[i] ^= 0x36
		outer[i] ^= 0x5c
	}
	h := sha256.New()
	h.Write(inner[:])
	for _, p := range parts {
		WriteLength(h, uint64(len(p)))
		h.Write(p)
	}
	h.Sum(outer[:sha256.BlockSize])
	return sha256.Sum256(outer[:])
}

// WriteLength writes n to h as 8 bytes, most significant first.
func WriteLength(h hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	h.Write(b[:])
}
