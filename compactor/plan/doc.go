// Package plan decides when a path is compacted, what a compaction covers or
// shortens, and how long its summary may be. It is pure.
//
// The engine asks [DueAt] before a call and makes a [Plan] with [New]; package
// compactor runs it. The package may not render a summary, ask a summarizer or
// read a clock.
//
// Begin with trigger.go (is a context due), then plan.go. cut.go and cuts.go
// choose where the path is cut, shorten.go and unseen.go which parts are shown
// shortened, cost.go whether a compaction pays. digest.go names what a plan
// follows from.
package plan
