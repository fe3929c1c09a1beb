// Package archive checks the archives that nexusd writes beside the ledger, and exports of
// ours: it computes the hashes again, line by line, with bounded memory.
//
// The command ledgerctl archive verify calls it. It opens the file and asks no ledger.
//
// Begin at [Check].
package archive
