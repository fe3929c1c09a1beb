// Package importreport prints what an import of transcripts did: a line a file, the sum,
// what was not kept exactly, which files were skipped and which failed.
//
// The command ledgerctl import calls it; quickstart and compare print parts of it. It reads
// no transcript and asks no ledger.
//
// Begin at [Report].
package importreport
