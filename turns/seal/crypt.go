package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"io"

	"nexus/turns"
)

// purpose is what a derived key is for: the info of HKDF. The strings are part
// of the format.
type purpose string

const (
	chunkKey      purpose = "nexus.key.v1 chunk" // and the number of the chunk in 8 bytes
	eventKeyOf    purpose = "nexus.key.v1 event" // and the number in the chunk in a byte
	sharedKey     purpose = "nexus.key.v1 shared"
	combinedKey   purpose = "nexus.key.v1 combined"
	bodyKey       purpose = "nexus.key.v1 body"
	saltKey       purpose = "nexus.key.v1 salt"
	successorKey  purpose = "nexus.key.v1 successor"
	requestKey    purpose = "nexus.key.v1 request"
	blobKey       purpose = "nexus.key.v1 blob"
	blobDigestKey purpose = "nexus.key.v1 blob digest"
	blobNonceKey  purpose = "nexus.key.v1 blob nonce"
	labelKey      purpose = "nexus.key.v1 label"
	policyKey     purpose = "nexus.key.v1 policy"
	agentKey      purpose = "nexus.key.v1 agent"
	memoryKey     purpose = "nexus.key.v1 memory"
	channelKey    purpose = "nexus.key.v1 channel"
	tokenKey      purpose = "nexus.key.v1 token"
	tokenNonceKey purpose = "nexus.key.v1 token nonce"
)

// derive is the key for one purpose: expand of k. Each append derives two keys, and
// crypto/hkdf allocates forty objects for that, more than it computes. Nothing is cached: a
// cache would hold keys that were destroyed.
func (k Key) derive(p purpose) Key {
	var none [sha256.BlockSize]byte // no salt
	secret := hmacShort(&none, k[:])
	var info [len(Key{})]byte
	n := copy(info[:], p)
	if n < len(p) || n == len(info) {
		return expand(bytes.Clone(k[:]), p) // a clone, so that k itself is on the stack
	}
	info[n] = 1 // the number of the first block, and the key is no longer
	var key [sha256.BlockSize]byte
	copy(key[:], secret[:])
	return hmacShort(&key, info[:n+1])
}

// hmacShort is HMAC-SHA-256 (RFC 2104) of at most 32 bytes. key is filled up with zeros. It
// allocates nothing.
func hmacShort(key *[sha256.BlockSize]byte, short []byte) Key {
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

// expand is HKDF-SHA-256 (RFC 5869) of secret without salt, with p as info.
func expand(secret []byte, p purpose) Key {
	b, err := hkdf.Key(sha256.New, secret, nil, string(p), len(Key{}))
	if err != nil {
		panic(err) // only for a length that SHA-256 can't give
	}
	return Key(b)
}

const (
	nonceSize = 12
	tagSize   = 16
)

// gcm is not cached: deriving the key and making it takes about a tenth of what sealing a
// 2 KiB body takes (BenchmarkDerive), and a cache would hold keys that were destroyed.
func gcm(k Key) cipher.AEAD {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		panic(err) // only for a key of another length
	}
	a, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only for a block of another size
	}
	return a
}

// encrypt appends a fresh nonce and AES-256-GCM of plain to dst. Nonces are
// random: a key is good for 2^32 of them (NIST SP 800-38D section 8.3), which
// is more than a session has events.
func encrypt(k Key, dst, plain, aad []byte, rand io.Reader) ([]byte, error) {
	var nonce [nonceSize]byte
	if _, err := io.ReadFull(rand, nonce[:]); err != nil {
		return nil, fmt.Errorf("read a nonce: %w", err)
	}
	out := make([]byte, 0, len(dst)+nonceSize+len(plain)+tagSize)
	out = append(append(out, dst...), nonce[:]...)
	return gcm(k).Seal(out, nonce[:], plain, aad), nil
}

// decrypt is the inverse of encrypt without dst.
func decrypt(k Key, sealed, aad []byte) ([]byte, error) {
	if len(sealed) < nonceSize+tagSize {
		return nil, fmt.Errorf("%w: %d sealed bytes, at least %d are needed", turns.ErrCorrupt, len(sealed), nonceSize+tagSize)
	}
	plain, err := gcm(k).Open(nil, sealed[:nonceSize], sealed[nonceSize:], aad)
	if err != nil {
		return nil, fmt.Errorf("%w: the seal is broken (altered, moved to another header, or another key)", turns.ErrCorrupt)
	}
	return plain, nil
}
