// Package compare finds the rows of the projections that are not what follows from the log.
//
// A [Pass] makes the projections anew from the records, in a database of its own, with the
// code that made the store's (package apply), and reads both side by side. So it knows no kind of
// row by name, and believes no row.
//
// Package projections begins one; verification gives it the records. It imports the rooms below,
// apply, db and rows, and never the store.
//
// Begin at [Pass] in pass.go. scratch.go makes the rows anew, difference.go reads both sides.
package compare
