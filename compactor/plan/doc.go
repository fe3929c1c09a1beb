// Package plan decides when a path is compacted, what a compaction covers or
// shortens, and how long its summary may be. It is pure.
//
// The engine asks [DueAt] before a call and makes a [Plan] with [New]; package
// compactor runs it. The package may not render a summary, ask a summarizer or
// read a clock.
//
// Begin with trigger.go (is a context due) and plan.go ([New] makes a [Plan] of
// one [Kind]). cuts.go chooses where the path is cut, bound.go how long the
// summary may be, shorten.go and parts.go which parts are shown shortened,
// unanswered.go does so for messages that no response has seen, cost.go says
// whether a compaction pays, rebase.go moves a plan to a newer head, digest.go
// names what a plan follows from.
package plan
