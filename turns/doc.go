// Package turns holds the values of the ledger: events, turns, messages, ids
// and hashes, with their one encoding. docs/FORMAT.md has the bytes as tables.
//
// An event is a clear header and an opaque body. The header is deterministic
// CBOR (RFC 8949 section 4.2.1) with integer keys; it holds what daemons
// decide on. Whatever a person or a model wrote is in the body, which package
// seal compresses and seals before the event is hashed. So the chain of hashes
// can be checked without a key, and still after a key has been destroyed.
//
// What never changes: the bytes of a stored event, the meaning of a field
// number, the hash. New versions get new numbers; old ones decode for ever.
//
// Aliasing: no function here keeps or returns memory that the caller can
// change, but for the slices inside the values it is given or returns.
package turns
