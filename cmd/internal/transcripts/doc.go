// Package transcripts brings transcripts of other agents into a ledger.
//
// It finds files, detects their formats, reads them with package interchange, and stores
// the steps with the ids that interchange derives. So an import can be repeated: it stores
// what the ledger lacks. A file that was imported while it grew is continued (grown.go).
// ledgerctl import and the package watch call it. It may import turns, interchange and the
// client of the ledger, and it prints nothing.
//
// Begin at [Importer.File] in import.go.
package transcripts
