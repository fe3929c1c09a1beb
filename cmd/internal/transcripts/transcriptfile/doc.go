// Package transcriptfile finds the transcripts that somebody names, opens them with their format
// detected and their compression undone, says which of them may have to do with each other, and
// reads from the files beside one who started a sub-agent.
//
// It knows no ledger. Package transcripts imports what it opens.
//
// Begin at [Find] and [OpenContext] in open.go.
package transcriptfile
