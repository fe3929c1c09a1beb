// Package compactions decides when a session is compacted, and compacts it: at
// once, in the background, or with a summary that the agent writes itself.
//
// [Compactions.CompactIfDue] decides when a client asks for a context. Package
// compactor/plan makes the plan and does no I/O. A job in the background
// ([Compactions.Work]) holds nothing that an append needs. Its result is committed
// like any event, and rebased if turns came meanwhile.
//
// sessions, forks and contexts call it, and natsapi for its verbs. Begin at due.go,
// then run.go and commit.go. flush.go, submit.go and record.go serve other verbs.
package compactions
