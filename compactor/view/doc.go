// Package view turns a path into the exact messages of the next model call, and
// measures it.
//
// A [Path] is everything from the cut of the compaction in force to the head.
// The engine loads it, [Render] writes its messages, a [Recipe] says how to make
// the same bytes again. Package plan reads the measurements and decides; nothing
// is decided here, and nothing here changes a path.
//
// Begin with path.go, then render.go. elide.go shows parts shortened, prune.go
// does so for a policy's view, frame.go writes the message around a summary,
// measure.go counts tokens.
package view
