// Package ledger is the append-only contract: what a log of events promises,
// how a session's chain folds into its state, and how a chain is verified.
//
// It touches no network, disk or clock. Package jetstream and package memlog
// implement [Log]; package ledgertest holds the suite both pass; package api
// is the wire contract and its Go client.
package ledger
