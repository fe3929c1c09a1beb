// Package transfer exports sessions and imports them, byte for byte. An event has the
// same hash in every ledger that stores it.
//
// An import believes nothing that it can check. Each event passes the rules of an
// append, its body is opened and compared with its header, and its blobs are stored
// before it. natsapi calls it. Begin at export.go and import.go.
package transfer
