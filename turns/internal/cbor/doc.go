// Package cbor writes and reads CBOR in its deterministic form (RFC 8949 section 4.2.1): what is
// read is what would have been written, or it is refused.
//
// A [Coder] goes through the members of a map in the order of their keys, and the same calls write
// or read. It knows no type of the ledger. Package turns, which alone imports it, names the members of
// each type by it, in fields.go. It imports nothing of the module.
//
// Begin at [Coder] in coder.go; member.go has the members of a map, value.go the values, item.go
// the bytes.
package cbor
