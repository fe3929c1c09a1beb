// Package fault turns the errors of a command into what a person reads: a sentence
// without codes, the next command to type, and an exit status.
//
// Package main of ledgerctl and the rooms below it make their errors with it. It imports
// the codes of the ledger's API, the names of the policies, and the usage error of the
// importers. It prints nothing.
//
// Begin at [Next] and [Plainly]; fault.go has the kinds of errors.
package fault
