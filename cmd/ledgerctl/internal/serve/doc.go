// Package serve serves a ledger of this machine for as long as somebody uses it: the child that ledgerctl starts where no
// daemon answers.
//
// It is a daemon without /v1, without the reading of all that is stored (scrub) and without collection of blobs, at an
// address of its own, which the folder's serving.json says. Its HTTP, on a port that the system picks, has the explorer alone.
// It ends when no client has been connected, and no page was open, for a while.
//
// Package main of ledgerctl calls it. It imports the wiring of the daemon.
//
// Begin at [Run].
package serve
