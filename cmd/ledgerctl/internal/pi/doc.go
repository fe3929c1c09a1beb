// Package pi makes Nexus the compactor of the pi coding agent: it holds the extension that
// asks for a compaction, and answers it from the ledger.
//
// ledgerctl hook installs the extension; ledgerctl hook answers it, when the transcript is
// in the ledger. It may import the turns, the reader of pi's sessions and the client of the
// ledger.
//
// Begin at [Compact]; the extension is extension.ts.
package pi
