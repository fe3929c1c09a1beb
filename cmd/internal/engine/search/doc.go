// Package search serves search.query: it asks the index of words (projections/search),
// compares each hit with the ledger, and shows what a model sees of it now.
//
// The index only proposes. Whether a hit is there, whose it is, who may see it, its text
// and its state come from the ledger, at the time of the reply. So an index that is old
// or wrong can leave something out, and show nothing that is not the caller's, nor
// anything that was erased.
//
// Package engine puts it together; the daemon runs the index with [Search.Run]. It may
// import the rooms page, cache, content, reader and memories.
//
// Begin at [Search.Query] in query.go; documents.go says what of an event is indexed,
// hit.go what a reply shows, state.go what a model sees of a turn.
package search
