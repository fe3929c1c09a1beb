package crypt

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
)

// Key is 32 bytes. It is another name of the array, so that the key types of callers need no conversion.
type Key = [32]byte

// Derive returns the key of k for one purpose: [Expand] of k.
func Derive(k Key, purpose string) Key { return Extract(k).Derive(purpose) }

// Extracted is a key from which several are derived: the half of HKDF that does not depend on what they are for.
// Each append derives five keys, and crypto/hkdf allocates twenty objects for each, more than it computes.
type Extracted struct{ key, pseudorandom Key }

// Extract returns k with that half.
func Extract(k Key) Extracted {
	var none [sha256.BlockSize]byte // no salt
	return Extracted{k, ShortMAC(&none, k[:])}
}

// Derive is [Derive] of the key.
func (x Extracted) Derive(purpose string) Key {
	var info [len(Key{})]byte
	n := copy(info[:], purpose)
	if n < len(purpose) || n == len(info) {
		return Expand(bytes.Clone(x.key[:]), purpose) // a clone, so that the key itself is on the stack
	}
	info[n] = 1 // the number of the first block, and the key is no longer
	var key [sha256.BlockSize]byte
	copy(key[:], x.pseudorandom[:])
	return ShortMAC(&key, info[:n+1])
}

// ShortMAC returns the HMAC-SHA-256 (RFC 2104) of at most 32 bytes. key is filled up with zeros. It
// allocates nothing.
func ShortMAC(key *[sha256.BlockSize]byte, short []byte) Key {
	var inner [sha256.BlockSize + len(Key{})]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	for i, b := range key {
		inner[i], outer[i] = b^0x36, b^0x5c
	}
	n := copy(inner[sha256.BlockSize:], short)
	sum := sha256.Sum256(inner[:sha256.BlockSize+n])
	copy(outer[sha256.BlockSize:], sum[:])
	return sha256.Sum256(outer[:])
}

// Expand returns 32 bytes of HKDF-SHA-256 (RFC 5869) of secret without salt, with purpose as info.
func Expand(secret []byte, purpose string) Key {
	b, err := hkdf.Key(sha256.New, secret, nil, purpose, len(Key{}))
	if err != nil {
		panic(err) // only for a length that SHA-256 can't give
	}
	return Key(b)
}
