// Package db is a Pebble that stops where Pebble would end the process: a write that the disk
// refuses, or a file that does not hold what was written, is a fault of the database. Reads go on, and
// another database can take its place in the same process. It knows of the rows how far they
// follow the log, and which chains were set aside; all else of them is package projections.
//
// Crash states: batches do not sync. A crash shortens the database to an earlier batch. The
// checkpoint commits with the rows it is of, so it is shortened too, and the log makes the rest
// again.
//
// Begin at [Open] in folder.go and at [DB] in db.go; fault.go says how a fault is met. Only this
// package imports Pebble.
package db
