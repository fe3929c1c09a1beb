// Package live is the stream by which open pages hear that a session has something new. It says
// which, never what: a page that misses a hint loses nothing.
//
// The explorer serves it, and closes it when the daemon stops. It holds the number of streams in all
// and for each person, and subscribes to the ledger's notifications.
//
// Begin at [Streams.Pages].
package live
