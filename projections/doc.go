// Package projections keeps the read models of the ledger in Pebble: sessions, labels, policies,
// memories, channels, what chains have lost, the lineage of turns, the bytes of every event.
//
// They are written only from the log, in its order, and can be deleted at any time: the next
// start makes the same ones again. Writes do not sync, because the log replays them: a crash
// shortens the store to an earlier batch, and its checkpoint with it. Nothing that a person or a
// model wrote is in the clear: rows hold what headers hold, and the bytes of events are sealed.
//
// The engine reads a [Store], the daemon opens and runs it. The rooms below, lowest first: rows (keys
// and values), db (the database: a disk that refuses a write stops it, not the process), apply (records to
// rows), compare (rows made anew). No room imports a later one, and search imports none of them.
//
// Begin at [Store] in store.go; run.go follows the log. Reads are by what they read: session.go,
// turn.go, event.go, tree.go, policy.go, memory.go, channel.go, records.go, changes.go.
package projections
