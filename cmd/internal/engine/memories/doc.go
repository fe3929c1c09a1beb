// Package memories stores what an agent remembers on the agent's own chain, and reads it.
//
// A memory is saved, promoted and withdrawn by events of that chain; the memories of a
// compaction follow from its header ([Memories.Learned] writes it), so no crash can part
// them from their compaction. The agent's document is replaced by a compare-and-set.
// Which session sees which memory is in visible.go, and nowhere else.
//
// compactions calls it, natsapi above it. Package projections keeps what the headers
// say; the texts are sealed, and opened here for each read. Begin at [Memories.Save]
// for a change, and at [Memories.Recall] for what a context needs.
package memories
