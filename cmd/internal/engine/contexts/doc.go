// Package contexts gives the exact messages of a model call: of the next one, of
// a past one from its recipe, or of one under another policy or budget.
//
// natsapi calls it. It writes nothing itself; a compaction that is due before
// the call is committed by package compactions. Begin at context.go; replay.go
// says what a past context was made of, overflow.go answers a provider's refusal.
package contexts
