// Package mark keeps, in a small file outside of the streams, the highest position of
// each stream that was acknowledged.
//
// A NATS server that finds a damaged record after a kill truncates the stream's file
// there, starts, and gives the positions behind it out a second time. The mark is how
// the daemon knows, before the server opens its files, how far they must reach and
// what must stand there.
//
// The daemon opens a [Keeper] before the streams; package jetstream tells it of each
// acknowledgement. The package knows no stream and no event, and imports nothing of
// this module but package turns.
//
// After a failed write [Keeper.Restore] writes the mark again.
//
// Begin at [Load] and [Keeper.Acked].
package mark
