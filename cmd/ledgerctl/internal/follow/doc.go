// Package follow is the work of ledgerctl watch: it follows the transcripts of agents, and says
// what is in the ledger, what is behind and what is wrong.
//
// Package main and hooks call it. The watch itself is cmd/internal/watch, which serves nexusd too.
//
// Begin at [Run]; sources.go says which folders are followed and where the state is, show.go prints
// it, check.go adds it to a doctor, code.go keeps the files of an agent's folder beside its turns.
package follow
