// Package completion is what a shell completes the arguments and flags of ledgerctl with: what the
// program knows, what the ledger has, or files.
//
// Package main calls it once, for all verbs. The types of values stand in their Use lines and on
// their pages. It asks the ledger for a short time, and prints nothing.
//
// Begin at [Types] and [Add].
package completion
