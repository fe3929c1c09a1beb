// Package prose writes numbers, ids and foreign text for people: in sentences and in cells
// of tables.
//
// Package main of ledgerctl and the rooms below it call it. It imports the types of turns
// and of the ledger's API. It has no state and touches nothing outside.
//
// Begin at prose.go; parts.go shortens the parts of messages.
package prose
