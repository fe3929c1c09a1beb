// Package overflow reads how model providers report a context that is too long: the
// kind of error, and the window and the token count in its text.
//
// The engine calls [Read] for context.overflow; package llm calls it for the models
// that it asks. It imports nothing of this module. Begin with overflow.go: its rules
// are a table, tried in order. docs/policies/overflow.md lists the errors that they
// were made from.
package overflow
