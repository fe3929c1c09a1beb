// Package eventview is the work of ledgerctl event: it stores external events, lists and shows them,
// follows a channel, and writes one to a file.
//
// The commands below ledgerctl event call it, and show for the events that a turn answered.
//
// Begin at verbs.go; [Line] and [Show] print an event, tail.go and follow.go read again and again.
package eventview
