// Package backup is the file that `ledgerctl backup` writes: every record of the log and
// of the blobs up to a position, byte for byte, and beside it the file of the content
// keys.
//
// A file is a sequence of checked frames, and is only ever appended to. A run begins
// with a frame that says whose records follow, and ends with a frame that counts them and
// holds a digest of everything before: that frame is the commit point. What is after the
// last one is unfinished, and the next run goes on there. docs/FORMAT.md has the layout.
//
// The same [Checker] checks a frame before it is written, when a file is verified, and
// before a restore stores what is in it. It compares checksums and hashes, and that each
// record continues its stream and its chain. It needs neither a server nor keys.
//
// [ReadDamaged] reads a damaged file on behind the damage: what can be restored, and what is
// lost.
//
// ledgerctl writes files with [Open], the daemon makes the frames with [AppendRecord] and
// restores a file with [Check] and [Blocks]. The package knows records and blocks, and no
// meaning of an event. Begin at [Checker.Frame] in check.go.
package backup
