// Package changes compares what a file of a transcript holds with what the ledger holds of it, and
// plans which sessions get successors: the job of "ledgerctl import --refresh".
//
// Package transcripts calls it before it does the steps of the file; package steps carries the plan
// out, and has the rules of a refresh (steps/refresh.go). It may import what package steps may,
// and steps itself. It stores nothing.
//
// Begin at [Find]; comparer.go compares step by step, loss.go finds what the file has lost.
package changes
