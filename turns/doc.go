// Package turns holds the values of the ledger: events, turns, messages, ids
// and hashes, with their one encoding. docs/FORMAT.md has the bytes as tables.
//
// An event is a clear header and an opaque body. The header is deterministic
// CBOR (RFC 8949 section 4.2.1) with integer keys; it holds what daemons
// decide on. Everything that a person or a model wrote is in the body, which
// package seal compresses and seals before the event is hashed. So the chain of
// hashes can be checked without a key, and still after a key has been destroyed.
//
// These never change: the bytes of a stored event, the meaning of a field number,
// the hash. New versions get new numbers; old ones decode for ever.
//
// Every package of the module calls it. It imports internal/cbor alone, which codes the bytes, and
// touches no network, disk or clock. What may follow what is decided in package ledger.
//
// Aliasing: no function here keeps or returns memory that the caller can change,
// except the slices inside the values that it gets or returns.
//
// Begin at [Event] in event.go; then message.go, codec.go and hash.go. fields.go names the members
// of each type.
package turns
