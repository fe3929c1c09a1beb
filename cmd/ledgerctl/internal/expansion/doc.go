// Package expansion shows what stands behind a context: the turns that a compaction
// covers, what a line of its summary rests on, and which facts it lost.
//
// The commands expand and lost call it. It asks the ledger and writes to a
// terminal.
//
// Begin at [Print]; lines.go follows the lines of a summary, lost.go the facts.
package expansion
