// Package writer is the one path from a decision to the log.
//
// [Writer.Mutate] waits for the session's turn in this daemon, folds the session
// to the tail it knows, asks the caller of Mutate to decide, seals what was
// decided and appends it, expecting that tail. Where another daemon was faster, or
// a refusal was decided on a fold that may be old, it folds again and asks again.
//
// Crash states: before the append nothing is promised; after it the event is on
// the log, and a retry with the same id finds it, on any daemon.
//
// sessions, compactions, forks and transfer call it. What may be stored is
// decided by package ledger, before every append. Begin at Mutate.
package writer
