// Package textdiff is the work of ledgerctl diff and merge-base. It prints what two paths or two
// contexts have line by line differently, as diff -u does, with credentials masked.
//
// Package main calls it. It asks the ledger for turns and contexts, changes
// nothing, and writes to a terminal.
//
// Begin at [Run], [Turns] and [Contexts].
package textdiff
