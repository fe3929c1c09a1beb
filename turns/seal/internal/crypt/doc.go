// Package crypt has the cryptography of sealing and of the key log: keys that are derived from
// a key, keyed digests, and AES-256-GCM. Keys are 32 bytes.
//
// It knows no purpose of a key: package seal and its package keyring name theirs. It imports
// package turns only, for its errors. Nothing here is cached: a cache would hold keys that
// were destroyed.
package crypt
