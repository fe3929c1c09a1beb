// Package searchview is the work of ledgerctl search: it asks a search page after page, and shows
// what it found.
//
// The commands search, sessions --grep and log --grep call it. It asks the ledger and
// writes to a terminal; what the hits lack, it says on stderr.
//
// Begin at [Run], [Find] and [Print].
package searchview
