// Package compare replays a transcript under compaction policies, and measures what
// each policy would have cost and kept. It calls no model: in every replay, the agent
// writes what it wrote in the transcript.
//
// ledgerctl compare calls it. It imports the other packages of compactor, and none of
// them imports it.
//
// What must not come in: a ledger, a file, a clock, or a format of transcripts; the
// caller reads those. A replay must plan, summarize and render by the same functions
// as the daemon, or its figures say nothing about the daemon.
//
// Begin at [Replay] in replay.go. transcript.go is its input and sum.go totals its
// results; cost.go prices the calls; fact.go, index.go and survival.go measure which
// facts of the transcript the contexts still hold.
package compare
