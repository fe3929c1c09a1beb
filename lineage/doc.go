// Package lineage answers questions about the forest of turns: ancestors, merge
// bases, ranges of a path, and what of it is covered.
//
// It is pure. It reads nodes through a [Reader], in batches, and does no I/O of its
// own; it imports package turns only. It never reads a body. Package projections
// stores the nodes and is a [Reader]; package ledger, package fork, the compactor
// and the engine call it. A [Forest] is a Reader in memory, for tests and tools.
//
// Begin at [Node] in node.go. jump.go and ancestor.go walk in O(log n) look-ups,
// from turn to turn or from segment to segment, path.go lists segments, event.go decides where an event may be placed, coverage.go
// and verify.go check what compactions cover.
package lineage
