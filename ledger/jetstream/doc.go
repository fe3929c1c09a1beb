// Package jetstream is the ledger on NATS JetStream: a [Log] on the stream
// NEXUS_LEDGER and its [Blobs] on the stream NEXUS_BLOBS.
//
// Every write is a compare-and-set on its subject. That is the one point at
// which order is decided; every read is a hint until a compare-and-set proves
// it. The store's answers to a write are mapped once, in errors.go; a write
// without a clear answer is resolved in settle.go.
package jetstream
