// Package resets fires the resets of sessions that are due by time.
//
// Each daemon has the timers of all sessions, and needs no memory of them: what is due
// follows from the ledger and the clock. Package sessions decides and stores a reset; the
// compare-and-set lets one daemon do it.
//
// The daemon runs it. Begin at [Resets.RunResets].
package resets
