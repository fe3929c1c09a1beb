// Package claude reads and writes transcripts of Claude Code: one JSON object a line, in a
// tree by parentUuid. Begin at [Read].
//
// tree.go folds the lines into turns (record.go reads one), branch.go finds the session and
// the parent of each, torn.go the place of what hangs on a lost line, compaction.go reads
// compactions, emit.go makes the steps. write.go is the other direction.
package claude
