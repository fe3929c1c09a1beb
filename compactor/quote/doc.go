// Package quote chooses what a compaction quotes again word for word: the newest state
// of the files that the agent read and wrote last, and what a person said must or must
// not be done. A summary tells what happened; an agent that goes on editing needs the
// lines themselves.
//
// Package plan calls it, for summaries by any summarizer. It is deterministic.
//
// What must not come in: a model, the network, a clock, a policy. What is quoted is
// data: whoever shows it escapes it ([nexus/compactor/summary.Data]).
//
// Begin at [Files] in files.go. calls.go reads what tool calls do to files, file.go
// holds the newest state of one file, choose.go selects blocks of lines within a
// budget, rules.go finds what a person demanded.
package quote
