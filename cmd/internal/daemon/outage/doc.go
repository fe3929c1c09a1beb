// Package outage is the time in which the disk of a data folder takes no writes, or in which the
// log has lost records: what is refused meanwhile, and what reads answer from.
//
// Writers of the daemon say that a write failed or hangs, and package storage, which opens
// everything again, says when it is over. The engine has the log, the blobs and the keys through
// the guards of this package (guards.go). ends.go knows what was acknowledged of each chain, so
// that a read need not ask the log.
//
// Begin at [Outage] in outage.go. Decision 19 has the states.
package outage
