// Package erasure is the work of ledgerctl erase, redact and secrets: it has the content of sessions,
// or a text, a part or a turn of them, made unreadable for ever, and says what became of what where.
//
// Package main calls it. It finds what is meant, asks the person, and waits for what the daemon does
// in the background.
//
// Begin at [Erase] and [Redact].
package erasure
