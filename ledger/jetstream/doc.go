// Package jetstream is the ledger on NATS JetStream: a [Log] on the stream
// NEXUS_LEDGER and its [Blobs] on the stream NEXUS_BLOBS, or the [Successor] that a
// collection put in its place.
//
// Every write is a compare-and-set on its subject. Only that decides the order;
// every read is a hint until a compare-and-set proves it. errors.go maps what the
// server answers to a write, once; settle.go finds the outcome of a write that got
// no clear answer.
//
// The daemon opens it, and the engine writes through the interfaces of package
// ledger. It knows subjects and bytes, and no meaning of an event. It imports
// packages turns and ledger only.
//
// Begin at [Log.Append] in append.go.
package jetstream
