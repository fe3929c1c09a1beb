// Package imports is the work of ledgerctl import: it brings transcripts into the ledger, says before
// what would come, lists the imports and hides what one opened.
//
// Package main calls it. cmd/internal/transcripts reads and stores, importreport says what was done.
//
// Begin at [Run].
package imports
