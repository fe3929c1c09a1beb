// Package steps stores the steps of a transcript in a ledger, each with the id that its reader
// derives, so that the same step again stores nothing.
//
// An [Intake] does the steps of one file, in their order, with a [Writer], which finds for each the
// session and the turn of the ledger that take it: a session has a successor (line.go), a turn was
// stored while its file grew (grown.go), another file brought it (joined.go, placed.go), or the file
// is an older copy (older.go).
//
// Packages changes and transcripts call it, and watch, which follows a file. It may import
// turns, the formats, the client of the ledger, handover and repository, and of the rooms beside it tally, sessionmeta,
// written and alike.
//
// Begin at [Intake.Step] in intake.go, then step.go. Files call downwards: intake, step, rewritten,
// placed, joined, older, grown, copies, refresh, opening, marks, rename, line, places, clock; writer.go
// has what is known of the file.
package steps
