// Package projections keeps the read models of the ledger in Pebble: sessions,
// labels, the lineage of turns, and the full bytes of every event.
//
// They are written only from the log, in its order, and can be deleted at any
// time: the rebuilt ones are logically identical. Writes do not sync, since the
// log replays them; a crash shortens the store to an earlier batch, and its
// checkpoint, which commits in the same batch, shortens with it.
//
// Nothing a person or a model wrote stands here in the clear: rows hold what
// event headers hold, and event bytes are kept sealed. They are also the
// repair copy of the log.
package projections
