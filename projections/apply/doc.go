// Package apply makes the rows that follow from records of the log, and reads them while it does.
//
// A [Batch] folds records into rows and commits them with a checkpoint. A [View] is the rows of a
// database, or of a batch that is not committed; [nexus/ledger.Admit] decides by one. A [Database] is one
// opening of the database, with the rows of the newest records in memory (recent.go), so that an
// append reads nothing of the disk.
//
// Package projections applies the log with it, package compare makes the rows anew. It imports
// projections/rows (keys and values), projections/db (the database), and of the ledger its rules and the
// tree of hashes. It decides nothing and starts no goroutine.
//
// Begin at [Batch.Apply] in apply.go: what each kind of event writes. view.go and what it names read.
package apply
