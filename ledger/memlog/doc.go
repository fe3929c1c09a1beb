// Package memlog is a ledger in memory: the reference that every other
// [ledger.Log] and [ledger.Blobs] is compared with, and the double that tests
// of other packages write to. Nothing survives the process.
//
// It imports packages turns and ledger only. Begin at [Log].
package memlog
