// Package projections keeps the read models of the ledger in Pebble: sessions,
// labels, policies, memories, channels, what chains have lost, the lineage of turns, and
// the full bytes of every event.
//
// They are written only from the log, in its order, and can be deleted at any
// time: the next start makes the same ones again. Writes do not sync, because the
// log replays them. A crash shortens the store to an earlier batch; its
// checkpoint commits in the same batch, so it is shortened too.
//
// The rows hold what event headers hold, and the event bytes are sealed. So nothing
// that a person or a model wrote is here in the clear. The bytes are also the
// repair copy of the log.
//
// Keys and values are package rows. The database is package db: a disk that refuses a write stops
// it, not the process; reads go on, and [Store.Reopen] opens the folder again.
//
// The engine reads them; the daemon opens and runs them. They decide nothing:
// ledger.Admit decides whether a record may follow.
//
// The rows of the newest records are held in memory, too, so that an append reads
// nothing of the database (recent.go).
//
// Begin at the table of keys in rows/keys.go; then [Store] in store.go, apply.go, which turns an
// event into rows, and run.go, which follows the log. Reads are by what they read: read.go
// (sessions, turns, events), policy.go, memory.go, channel.go, records.go, tree.go, changes.go.
package projections
