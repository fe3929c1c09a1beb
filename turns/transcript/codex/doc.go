// Package codex reads and writes rollouts of Codex: one record a line, in the order of the
// calls. Begin at [Read].
//
// item.go reads a record, turn.go makes turns of items, history.go tells a fork's own turns
// from those that it copied, usage.go counts. write.go is the other direction.
package codex
