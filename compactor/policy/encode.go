package policy

import (
	"bytes"
	"crypto/sha256"
	"errors"
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
	return DigestOf(p.Bytes())
}

// DigestOf returns the digest of the policy whose canonical bytes are b.
func DigestOf(b turns.Raw) turns.Hash {
	return sha256.Sum256(append([]byte("nexus.policy.v1\x00"), b...))
}

// Parse returns the policy with a name, a version, and the settings of a JSON object.
// A setting that is left out is zero, as it is in the canonical bytes. Parse ignores
// a name and a version in the object, which policy.get shows.
//
// The error holds a [turns.FieldError] for each fault, with a pointer /settings/….
func Parse(name string, version uint64, settings turns.Raw) (Policy, error) {
	if settings.Kind() != '{' {
		return Policy{}, &turns.FieldError{Field: settingsPointer, Reason: "not a JSON object", Kind: turns.ErrMalformed}
	}
	var p Policy
	if err := turns.DecodeJSON(settings, &p); err != nil {
		if fe := (*turns.FieldError)(nil); errors.As(err, &fe) {
			return Policy{}, &turns.FieldError{Field: settingsPointer + fe.Field, Reason: fe.Reason, Kind: fe.Kind}
		}
		return Policy{}, &turns.FieldError{Field: settingsPointer, Reason: err.Error(), Kind: turns.ErrMalformed}
	}
	p.Name, p.Version = name, version
	if err := p.validate(settingsPointer); err != nil {
		return Policy{}, err
	}
	if n := len(p.Bytes()); n > turns.MaxPolicy {
		return Policy{}, &turns.FieldError{Field: settingsPointer, Reason: fmt.Sprintf("%d bytes, the limit is %d", n, turns.MaxPolicy), Kind: turns.ErrTooLarge}
	}
	return p, nil
}

const settingsPointer = "/settings"

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
