// Package transcripts brings transcripts of other agents into a ledger.
//
// It opens files with package transcriptfile, reads them with the packages below turns/transcript, and stores
// the steps with the ids that these derive. So an import can be repeated: it stores
// what the ledger lacks. A file that was imported while it grew is continued (grown.go). With
// Refresh, what another reader would store otherwise gets a successor (refresh.go), after the file
// was compared with the ledger (comparer.go); alike compares a single turn.
// ledgerctl import and the package watch call it. It may import turns, the formats and the
// client of the ledger, and it prints nothing.
//
// Begin at [Importer.File] in import.go.
package transcripts
