// Package tally counts what the import of a file of a transcript does: its records, what of them
// was stored, the sessions, and what was lost.
//
// The lowest of the rooms of an import: package steps adds to a [Report] with each step, package
// transcripts returns one for a file, and ledgerctl prints it and shows it as JSON. It may import
// turns, the contract of transcripts, and the types of the ledger's API.
//
// Begin at [Report].
package tally
