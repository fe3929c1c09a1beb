package crypt

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"testing"
)

// TestMACIsHMACOfTheParts compares MAC with crypto/hmac, for parts around the size of a block.
func TestMACIsHMACOfTheParts(t *testing.T) {
	k := Key(bytes.Repeat([]byte{0xa7}, 32))
	for n := range 3 * sha256.BlockSize {
		parts := [][]byte{bytes.Repeat([]byte{'x'}, n), nil, {byte(n)}}
		h := hmac.New(sha256.New, k[:])
		for _, p := range parts {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
			h.Write(p)
		}
		if got, want := MAC(k, parts...), [32]byte(h.Sum(nil)); got != want {
			t.Fatalf("%d bytes: %x, want %x", n, got, want)
		}
	}
	part := make([]byte, 2048)
	if n := testing.AllocsPerRun(100, func() { MAC(k, part) }); n > 2 {
		t.Errorf("%v allocations, want at most 2", n)
	}
}
