// Package sessionmeta has the members that an import writes into the meta of sessions, and reads
// there: which import opened a session, which reader read it, and its successor.
//
// Packages steps and changes call it; ledgerctl asks it which import opened a session. It may import
// turns, the formats of transcripts and the types of the ledger's API. It is pure: it asks no ledger.
//
// Begin at [With] and [Successor].
package sessionmeta
