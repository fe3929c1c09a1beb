// Package bench measures appends a second of the ledger beside a bare NATS stream and bare
// Pebble, in rounds, on the same disk; and turns of coding agents, by depth of their sessions,
// by how many sessions there are, and by the size of their system parts.
//
// The commands ledgerctl bench and ledgerctl bench agents call it. Its servers are the command
// itself, started again as "bench serve". It writes to a terminal and to a temporary folder.
//
// Begin at [Run] and at [RunAgents]; systems.go has what is measured.
package bench
