// Package quickstart shows the main job on a real transcript: import, compaction, fork,
// context, export into a second ledger, verification.
//
// The command ledgerctl quickstart calls it. It starts daemons of its own in a folder and
// writes to a terminal. README.md says where the transcript is from.
//
// Begin at [Run].
package quickstart
