// Package embed runs the NATS server inside the daemon, with the settings that
// a ledger needs: fsync before every ack, an explicit store, an exclusive lock
// on the data folder, and JetStream out of reach of clients.
//
// The daemon starts it, and so do tests. Only this package imports the server. It
// knows no stream and no event: package jetstream creates the streams.
//
// Begin at [Start].
package embed
