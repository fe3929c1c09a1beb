// Package page says how much a message, a page and an item may hold, and writes
// and reads the cursors by which a client asks for the next page.
//
// A reply is never larger than a message of the connection ([Limits]). What a
// list or a context holds is measured before it is sent. An item that is larger
// than a page by itself is moved to a blob when it is stored, or is sent in pieces.
//
// Every room calls it. It imports no other room and does no I/O. Begin at
// [Limits].
package page
