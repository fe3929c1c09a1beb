// Package transcripts brings transcripts of other agents into a ledger.
//
// It opens files with package transcriptfile, reads them with the packages below turns/transcript, and
// stores what they hold with package steps: the conversations of one file (lanes.go) and several files
// (groups.go) at the same time. An import can be repeated: it stores what the ledger lacks. With
// Refresh it compares a file with the ledger first, by package changes. A preview stores nothing.
//
// ledgerctl import and the package watch call it. It may import turns, the formats, the client of the
// ledger and all rooms below it, which from the lowest are alike, tally, transcriptfile and sessionmeta,
// then rawexport and written, steps, changes. It prints nothing.
//
// Begin at [Importer.File] in import.go.
package transcripts
