// Package compactions decides when a session is compacted, and compacts it: at
// once, in the background, or with a summary that the agent writes itself.
//
// A decision ([Compactions.CompactIfDue]) is taken when a context is asked for.
// The plan is made by package compactor, which does no I/O. A job in the
// background ([Compactions.Work]) holds nothing that an append needs; its result
// is committed like any event, rebased where turns came meanwhile.
//
// sessions, forks and contexts call it. It renders no context. Begin at due.go,
// then compaction.go; flush.go, selfsummary.go and record.go stand beside them.
package compactions
