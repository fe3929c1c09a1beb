// Package audit verifies the ledger from the bytes on the log: hashes, the rules
// of every chain, bodies against their headers, coverage, and the projections
// against the log.
//
// natsapi calls it. It repairs nothing. Begin at [Audit.Verify].
package audit
