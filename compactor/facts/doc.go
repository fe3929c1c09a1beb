// Package facts finds what of turns someone may need again: sentences of the user, errors, commands,
// paths, identifiers and numbers. With these it says what a summary keeps of the turns that it
// stands for, what newer turns miss in it, and whether it says anything at all.
//
// Package compactor reports with it, the summarizers refuse thin answers by it, evidence finds
// what was lost, compare measures policies, and the engine searches by names. It may import turns and
// package summary. It is pure and asks no model.
//
// Begin at [Survival] in survival.go, late.go for [Missing], thin.go for [Thin]. Files call downwards:
// finder.go finds facts, failures.go the errors of a result, calls.go what a call runs, files.go the
// files that calls name, scalars.go, escapes.go and words.go the words, paths.go the shapes of paths.
package facts
