// Package memoryview shows memories as a table, and says who sees one.
//
// The commands below ledgerctl memory call it. It asks no ledger and writes to a terminal.
//
// Begin at [Print].
package memoryview
