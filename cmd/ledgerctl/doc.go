// Command ledgerctl reads, changes and audits a ledger of agents' conversations.
//
// It is a client like any other: every verb of a ledger goes through package api,
// and none opens the log or the projections. The importers read transcripts with
// package interchange; compare replays them without a daemon; quickstart starts a
// daemon of its own.
//
// Begin at main.go, which lists the verbs. Each verb has a file of its name or of
// its group; fault.go turns an error into what a person reads, screen.go knows the
// terminal.
package main
