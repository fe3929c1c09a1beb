// Package overflow reads what model providers answer when a context is too
// long: the kind of the error, and the window and the token count in its text.
//
// The engine calls [Read] for context.overflow, package llm for the answers of
// the models that it asks. It imports nothing of this module. Begin with
// overflow.go: the rules are a table, tried in order, and docs/policies/overflow.md
// lists the errors that they were made from.
package overflow
