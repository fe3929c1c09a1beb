// Package content seals and opens the bodies of events. It moves large parts to
// blobs and back, keeps system and tools apart from the settings that name them,
// and checks that a body is what its header says.
//
// [Store] holds the keys, the blob store and the caches of what was opened. The
// rooms above call [Store.Seal] before an append and [Store.Open] after a read.
//
// It knows nothing of sessions, callers or the log's positions, and it reads no
// projections. Begin at Seal in seal.go, then blobs.go.
package content
