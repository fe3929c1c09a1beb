package crypt

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"

	"nexus/turns"
)

// What a seal takes beyond what is sealed, in bytes.
const (
	NonceSize = 12
	TagSize   = 16
)

// AEAD returns AES-256-GCM under k. Deriving a key and making its AEAD takes about a tenth of what
// sealing a 2 KiB body takes (BenchmarkDerive).
func AEAD(k Key) cipher.AEAD {
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

// Encrypt appends a fresh nonce and AES-256-GCM of plain to dst. Nonces are
// random: a key is good for 2^32 of them (NIST SP 800-38D section 8.3), which
// is more than a session has events. Errors: rand's.
func Encrypt(k Key, dst, plain, aad []byte, rand io.Reader) ([]byte, error) {
	var nonce [NonceSize]byte
	if _, err := io.ReadFull(rand, nonce[:]); err != nil {
		return nil, fmt.Errorf("read a nonce: %w", err)
	}
	out := make([]byte, 0, len(dst)+NonceSize+len(plain)+TagSize)
	out = append(append(out, dst...), nonce[:]...)
	return AEAD(k).Seal(out, nonce[:], plain, aad), nil
}

// Decrypt is the inverse of [Encrypt] without dst. Errors: [turns.ErrCorrupt].
func Decrypt(k Key, sealed, aad []byte) ([]byte, error) {
	if len(sealed) < NonceSize+TagSize {
		return nil, fmt.Errorf("%w: %d sealed bytes, at least %d are needed", turns.ErrCorrupt, len(sealed), NonceSize+TagSize)
	}
	plain, err := AEAD(k).Open(nil, sealed[:NonceSize], sealed[NonceSize:], aad)
	if err != nil {
		return nil, fmt.Errorf("%w: the seal is broken (altered, moved to another header, or another key)", turns.ErrCorrupt)
	}
	return plain, nil
}
