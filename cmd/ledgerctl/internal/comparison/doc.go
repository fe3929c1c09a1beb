// Package comparison replays histories under several policies and says what each costs,
// keeps and forecasts: as tables, Markdown, JSON and a picture.
//
// The command ledgerctl compare calls it. It reads transcripts from files and sessions from
// a ledger; package compactor/compare does the replay. It writes to a terminal.
//
// Begin at [New] and [Run]; history.go reads, table.go and plot.go show.
package comparison
