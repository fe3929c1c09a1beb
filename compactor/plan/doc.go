// Package plan decides when a path is compacted, what a compaction covers or
// shortens, and how long its summary may be. It is pure.
//
// The engine asks [DueAt] before a call and makes a [Plan] with [New]; package
// compactor runs it. The package must not render a summary, ask a summarizer or read
// a clock.
//
// Begin with trigger.go (is a context due) and plan.go ([New] makes a [Plan] of one
// [Kind]). cuts.go chooses the cut, bound.go bounds the summary, shorten.go and
// parts.go choose the parts to shorten, unanswered.go shortens messages that no
// response has seen, cost.go forecasts whether a compaction pays, rebase.go moves a
// plan to a newer head, digest.go identifies plans.
package plan
