// Package transfer exports sessions and imports them, byte for byte: an event
// keeps its hash in every ledger that it comes to.
//
// An import believes nothing that it can check: each event passes the rules that
// an append passes, its body is opened and compared with its header, and its blobs
// are there before it. natsapi calls it. Begin at export.go and import.go.
package transfer
