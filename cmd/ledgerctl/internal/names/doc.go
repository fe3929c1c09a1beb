// Package names finds what a person types: a session by an id, its beginning or end, or a
// label; a turn by SESSION@30, SESSION/TURN, SESSION@head~2; a policy with its settings.
//
// The commands of ledgerctl call it. It asks the ledger over a connection and prints
// nothing. An ambiguous name is an error that lists what has it.
//
// Begin at [Finder]: session.go finds sessions, turn.go turns.
package names
