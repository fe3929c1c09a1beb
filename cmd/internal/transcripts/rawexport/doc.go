// Package rawexport reads exports of raw events, which a ledger writes and takes back as they are:
// their lines, which an archive of a compaction has too, and requests of several lines.
//
// Package transcripts imports a file of this kind with it; ledgerctl's archive, comparison and
// quickstart read and send lines. It may import turns, the client of the ledger and package tally.
//
// Begin at [Import].
package rawexport
