// Package claude reads transcripts of Claude Code: one JSON object a line, in a tree by parentUuid.
//
// Three rooms are below it, which know nothing of the tree and not of each other: record decodes
// a line, content reads blocks and usage, write is the other direction. The table of formats
// (package formats) names [Format]; package transcriptfile asks for the [Spawner] of a sub-agent.
// It may import turns, its values, and the contract of transcripts. It is pure.
//
// Begin at [Read] in format.go. Files call downwards: tree.go folds the lines into turns, torn.go finds
// the place of what hangs on a lost line, compaction.go reads compactions, turn.go prompts, results
// and responses, branch.go finds the session and the parent of each, emit.go makes the steps.
// body.go is a turn that is not finished, state.go what the fold keeps.
package claude
