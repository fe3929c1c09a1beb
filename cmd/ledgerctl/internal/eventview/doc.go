// Package eventview shows external events, follows a channel, and writes one to a file.
//
// The commands below ledgerctl event and show call it. It asks the ledger for what came
// since, and writes to a terminal.
//
// Begin at [Line] and [Show]; follow.go reads again and again.
package eventview
