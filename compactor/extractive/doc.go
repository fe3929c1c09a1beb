// Package extractive writes summaries without a model: it selects from the turns what
// an agent needs to continue. It is deterministic and works offline.
//
// The daemon and ledgerctl make a [Summarizer]; package compactor calls it as the tier
// "extractive". docs/policies/extractive.md describes how it selects, and how well.
//
// What must not come in: a model, the network, a clock, randomness, or a setting of a
// policy; it imports package summary alone. The same input gives the same bytes, which
// the golden files hold. Text of a turn must not forge a section or an item.
//
// Begin at [Summarizer.Summarize] in extractive.go. gather.go and inventory.go read the
// turns, recall.go reads the previous summary, cues.go and centrality.go weigh
// sentences, choose.go selects, render.go writes.
package extractive
