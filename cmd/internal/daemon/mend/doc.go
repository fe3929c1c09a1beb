// Package mend is what commands do with a data folder on which no daemon runs: they restore a
// backup into an empty one, write damaged files again, put content keys back, and compare a
// folder with the log on a server of others.
//
// Each locks the folder first, and refuses one that a daemon has. nexusd and ledgerctl call it; a
// running daemon does not.
//
// Begin at [Restore] in restore.go and [Repair] in repair.go. addkeys.go has [AddKeys], compare.go
// [CompareLog].
package mend
