// Package continuation is the work of ledgerctl continue: a session goes on in another coding agent.
//
// Package main calls it. cmd/internal/transcripts and cmd/internal/handover write the transcript.
//
// Begin at [Run].
package continuation
