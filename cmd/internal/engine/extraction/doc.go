// Package extraction finds what is to be remembered of a session that was reset. The turns
// since its last compaction have been given to no summarizer; this is their turn.
//
// The reset commits first, and nothing waits for an extraction. What was begun, done and
// failed stands on a channel of the agent's events, so any daemon goes on where another
// stopped, one of them asks the model, and the tries are bounded. The memories stand on the
// agent's chain. See docs/decisions/0037-extraction-at-a-reset.md.
//
// The daemon runs it. Begin at [Extraction.ExtractDue].
package extraction
