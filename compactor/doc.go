// Package compactor runs a compaction: it takes a plan, asks summarizers in order
// for a text that passes the checks, and returns a [Result] for the ledger.
//
// The engine is its caller. Its packages depend strictly downward:
//
//	compactor   run a plan, accept a summary, record another system's compaction
//	plan        decide when and what (pure)
//	view        a path and its exact messages (pure)
//	policy      settings as data
//	summary     what a summarizer reads and writes
//	overflow    what providers say when a context is too long
//
// Packages extractive and llm write summaries. They import only summary; llm also
// imports overflow. Package compare replays transcripts through policies.
//
// Begin with run.go.
package compactor
