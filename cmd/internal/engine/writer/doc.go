// Package writer is the one path from a decision to the log.
//
// [Writer.Mutate] waits for the token of the session's chain, folds the session to
// the tail that this daemon knows, calls the decide function of its caller, seals the
// drafted event and appends it, expecting that tail. If another daemon was faster, or
// decide refused on a fold that may be old, it folds again and decides again.
//
// Crash states: before the append nothing is stored. After it the event is on the log,
// and a retry with the same id finds it, on any daemon.
//
// sessions, compactions, forks and transfer call it. Package ledger decides, before
// every append, whether the event may be stored. Begin at Mutate.
package writer
