package policy

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"nexus/turns"
)

// Bytes returns the policy's canonical bytes: JSON, with members in the struct's
// order and without zero fields. Equal policies have equal bytes.
func (p Policy) Bytes() turns.Raw {
	b, err := turns.EncodeJSON(p)
	if err != nil {
		panic(fmt.Sprintf("policy: encode %s: %v", p.Name, err)) // only for a float that Validate refuses
	}
	return b
}

// Digest returns the SHA-256 of "nexus.policy.v1\0" and the policy's [Policy.Bytes].
func (p Policy) Digest() turns.Hash {
	return sha256.Sum256(append([]byte("nexus.policy.v1\x00"), p.Bytes()...))
}

// Decode returns the policy whose canonical bytes are b, built in or not.
//
// Errors: [turns.FieldError] for each invalid setting, joined; [turns.ErrMalformed]
// for bytes that are not canonical.
func Decode(b turns.Raw) (Policy, error) {
	var p Policy
	if err := turns.DecodeJSON(b, &p); err != nil {
		return Policy{}, fmt.Errorf("decode policy: %w", err)
	}
	if err := p.Validate(); err != nil {
		return Policy{}, fmt.Errorf("decode policy %s: %w", p.Name, err)
	}
	if !bytes.Equal(p.Bytes(), b) {
		return Policy{}, fmt.Errorf("decode policy %s: %w: the bytes are not canonical", p.Name, turns.ErrMalformed)
	}
	return p, nil
}
