// Package forks opens sessions that begin at a turn of another. Nothing is
// copied: the first event of the new session names the turn. A fork in mode
// summary starts from a summary that it may legally reuse, or from a new one.
//
// Which fork is legal is decided by the package fork at the top level; this one
// does the I/O. Begin at [Forks.Fork].
package forks
