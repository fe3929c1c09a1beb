// Package textdiff prints what two paths or two contexts have line by line differently, as
// diff -u does, with credentials masked.
//
// The command ledgerctl diff calls it. It asks the ledger for turns and contexts, changes
// nothing, and writes to a terminal.
//
// Begin at [Turns] and [Contexts].
package textdiff
