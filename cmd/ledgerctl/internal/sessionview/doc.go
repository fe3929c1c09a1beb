// Package sessionview shows sessions: as a table that fits the terminal, one with its
// settings, and the tree of forks as lines.
//
// The commands sessions, tree, search, cost and quickstart call it. It asks the ledger only
// about the policy of a session, and writes to a terminal.
//
// Begin at [Table] and [Print]; tree.go draws forks.
package sessionview
