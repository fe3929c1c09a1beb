package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"

	"nexus/turns"
)

// Scope is what a caller may do. Each scope holds those before it; the zero value may
// do nothing.
type Scope int

// The scopes.
const (
	Read  Scope = iota + 1 // read the agent's sessions, and the metrics
	Write                  // and change them
	Admin                  // and act as the operator
)

var scopeNames = map[Scope]string{Read: "read", Write: "write", Admin: "admin"}

// String is the word of the configuration.
func (s Scope) String() string { return scopeNames[s] }

// ParseScope is the inverse of String. [turns.ErrMalformed]: no scope.
func ParseScope(name string) (Scope, error) {
	for s, n := range scopeNames {
		if n == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%w: scope %.20q is not read, write or admin", turns.ErrMalformed, name)
}

// Token says whose requests come with a secret. Only the secret's hash is kept.
type Token struct {
	Hash turns.Hash // SHA-256 of the secret
	Caller
}

// Hash is the hash of a secret, as a row of the configuration has it.
func Hash(secret string) turns.Hash { return sha256.Sum256([]byte(secret)) }

// secretPrefix lets people and secret scanners tell what a secret is for.
const secretPrefix = "nexus_"

// NewSecret returns a secret of 256 random bits.
func NewSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails: the program ends instead
	return secretPrefix + hex.EncodeToString(b[:])
}

// find returns the token of a secret. It compares with every token in constant time,
// so the time of an answer tells nothing about the hashes.
func find(tokens []Token, secret string) (found Token, ok bool) {
	sum := Hash(secret)
	for _, t := range tokens {
		if subtle.ConstantTimeCompare(sum[:], t.Hash[:]) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}
