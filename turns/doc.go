// Package turns holds the values of the ledger: events, turns, messages, ids and hashes, with
// their one encoding. docs/FORMAT.md has the bytes as tables.
//
// An event is a clear header, which has what daemons decide on, and a body, which has all that a
// person or a model wrote. Package seal seals the body before the event is hashed: so the chain of
// hashes can be checked without a key. The bytes of a stored event, the meaning of a field
// number and the hash never change: new versions get new numbers.
//
// Every package of the module calls it. It imports internal/cbor alone, and touches no network, disk or
// clock. What may follow what is decided in package ledger. No function keeps or returns
// memory that the caller can change, except the slices inside values.
//
// Begin at [Event] in event.go; then message.go, codec.go and hash.go. fields.go names the members
// of each type.
package turns
