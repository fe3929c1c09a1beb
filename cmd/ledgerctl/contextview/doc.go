// Package contextview splits a context into pieces by where its messages come from, and
// compares two contexts piece by piece.
//
// The commands ledgerctl context and context --diff call it. It imports the types of the
// ledger's API. It prints nothing and asks nobody.
//
// Begin at [PiecesOf]; diff.go compares.
package contextview
