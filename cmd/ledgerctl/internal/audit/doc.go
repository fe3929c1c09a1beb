// Package audit says what a verification of a ledger found, as text and as a report, and
// lists where credentials of known shapes stand, without showing them.
//
// The command ledgerctl verify calls it. It asks the ledger what a damaged session lost and
// for the turns that it looks through.
//
// Begin at [Print], [New] and [FindSecrets].
package audit
