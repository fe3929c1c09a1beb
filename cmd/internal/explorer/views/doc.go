// Package views has the pages that show what the ledger has: the list of sessions, a session, its
// turns and their parts, what the model read for one, a compaction, search, memories and external
// events.
//
// The explorer serves them; package compare and package acts show a session's head as these do
// ([HeadOf]). Each page is a file: it asks the ledger as whoever visits ([visit.Visit]), fills a struct,
// and has it written by the template of its name. What sessions cost is package costs'. Nothing is
// changed here.
//
// Begin at [Views.Pages]; session.go has what a turn looks like in a list.
package views
