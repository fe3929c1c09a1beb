// Package disk looks at the files of the ledger's streams, decides whether a server may
// open them, and repairs them.
//
// A NATS server repairs what it finds at its start by truncating it, and tells nobody.
// So the daemon calls [Inspect] first, with the mark of what was acknowledged, and
// [Scrub] while it runs; neither writes anything. [Repair] writes damaged blocks again
// while no server has them open, and [Rewrite] the newest ones after a failed fsync. The package knows what a sound record and chunk are,
// package blocks how they lie on the disk, package mark how far they must reach.
//
// Begin at [Inspect].
package disk
