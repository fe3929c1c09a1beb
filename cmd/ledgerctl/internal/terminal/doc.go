// Package terminal is where a command reads and writes: streams, styles, tables that fit,
// the pager, bars of progress, and results as JSON or as sentences.
//
// Package main of ledgerctl gives each command a [Terminal]; the rooms that print take it
// as an argument. It imports prose and fault, and asks no ledger.
//
// Begin at [Terminal]; table.go fits tables into the width, pager.go runs the pager.
package terminal
