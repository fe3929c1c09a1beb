// Package turnview shows turns: on a line, whole, in a few words, with their credentials
// masked.
//
// The commands log, show, tail, diff, expand, bisect and compact call it. It asks the
// ledger for the contents of a part, and writes to a terminal.
//
// Begin at [Line] and [Show]; mask.go masks.
package turnview
