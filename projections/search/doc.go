// Package search keeps an index of the words of everything that is stored: turns,
// summaries, memories and external events.
//
// It follows the projections by itself ([Index.Run]), with its own checkpoint, which the
// index stores in the batch of the documents that it speaks for. So a crash repeats
// records and misses none, and the same record makes the same documents. A deleted folder,
// a folder of another ledger or schema, and a damaged one are made again in the background.
// No append and no start waits for it.
//
// The index holds words in the clear, and no text: what a reply shows is read from the
// ledger. It imports bleve, no room of the engine and no key; [Source] is what the engine
// gives it. The engine's room search asks it, the daemon runs it.
//
// Begin at [Index] in index.go; fields.go makes a document of texts, which the room words splits,
// query.go reads a query, rank.go asks and ranks, common.go finds the newest where most documents
// have the words, and the room ranking the best of many documents; lang.go knows languages,
// snippet.go finds the words of a query in a text.
package search
