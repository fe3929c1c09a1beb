// Package history is the work of the verbs for the turns of a session: append adds one, log lists
// them, show prints one, tail follows them.
//
// Package main calls it. It asks the ledger, and prints with turnview.
//
// Begin at log.go.
package history
