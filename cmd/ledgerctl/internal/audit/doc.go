// Package audit is the work of ledgerctl verify and prove: it has a ledger verified and says what
// was found, as text and as a report, and writes proofs that turns are in the ledger. It lists where
// credentials of known shapes stand, without showing them.
//
// Package main, erasure and quickstart call it. It asks the ledger what a damaged session lost and
// for the turns that it looks through.
//
// Begin at [Verify], [Prove] and [FindSecrets].
package audit
