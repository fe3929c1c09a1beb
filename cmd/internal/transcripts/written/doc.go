// Package written reads sessions as the writers of transcripts take them, and knows the transcripts
// that this ledger wrote: by "continue" for another agent, and by "export".
//
// ledgerctl's continue and export write with it; package steps asks it where such a transcript goes
// on when it comes back. It may import turns, the contract of transcripts, the client of the ledger
// and package handover. It stores nothing but the fork of an export ([ExportFork.Make]).
//
// Begin at [Session] and [Turn].
package written
