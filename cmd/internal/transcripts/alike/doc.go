// Package alike compares what a transcript says of a turn with what the ledger has of it: whether
// they are the same, whether one is a copy or the beginning of the other, and what of it the ledger
// lacks. It is pure.
//
// Packages steps and changes ask the ledger, and compare with it. It may import turns, the contract
// of transcripts and the types of the ledger's API.
//
// Begin at [Rest] in rest.go.
package alike
