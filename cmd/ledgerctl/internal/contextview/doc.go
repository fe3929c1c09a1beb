// Package contextview shows contexts: how full the window is, what was recorded of a call,
// each half turn and what it says; and compares two contexts piece by piece.
//
// The commands context, context --diff and quickstart call it. It asks the ledger for the
// depths of turns and what a compaction shortened, and writes to a terminal.
//
// Begin at [Show] and [PrintDiff]. pieces.go and diff.go are pure: [PiecesOf] splits a
// context by where its messages come from, [Diff] compares.
package contextview
