// Package sessions is the work of ledgerctl sessions, and of compact, rewind, fork and tree: it lists
// sessions, opens, changes, hides and closes them, and keeps what a person says of them.
//
// Package main calls it; erasure and imports ask it what belongs to a session. It finds sessions by
// what a person types, asks the ledger, and prints with sessionview and searchview.
//
// Begin at list.go; settings.go opens and changes, change.go compacts, rewinds and forks,
// hide.go hides, tree.go draws, remarks.go has titles, tags and notes.
package sessions
