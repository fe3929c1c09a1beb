// Package bench measures appends a second of the ledger beside a bare NATS stream and bare
// Pebble, in rounds, on the same disk.
//
// The command ledgerctl bench calls it. Its servers are the command itself, started again
// as "bench serve". It writes to a terminal and to a temporary folder.
//
// Begin at [Run]; systems.go has what is measured.
package bench
