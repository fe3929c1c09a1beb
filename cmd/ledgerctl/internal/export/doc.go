// Package export takes sessions out of a ledger, as raw events, pages, transcripts of other
// agents and providers' forms; and everything of a tenant into a folder.
//
// The command ledgerctl export calls it; others write files with [WriteFile]. A file is
// written as a whole or not at all, for its owner alone.
//
// Begin at [Run]; [Events] and [All] write raw events.
package export
