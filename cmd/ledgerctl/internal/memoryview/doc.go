// Package memoryview is the work of ledgerctl memory: it saves, lists and searches memories, takes
// them back, and has the document of an agent. It shows them as a table, and says who sees one.
//
// The commands below ledgerctl memory call it.
//
// Begin at verbs.go; [Print] is the table, document.go the document.
package memoryview
