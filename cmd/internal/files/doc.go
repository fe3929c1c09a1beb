// Package files writes the files that policies ask for beside the ledger: archives of
// what left a context, in the paths of the published designs.
//
// A file is a function of the ledger. So a crash at any point costs nothing: what is
// missing is written again from the log, by any daemon. Nothing reads a file back
// into the ledger but a person's import.
//
// Begin at files.go; write.go says what each crash leaves.
package files
