// Package web decides who sent an HTTP request and what it may do.
//
// A [Guard] stands before every handler of the daemon: it refuses requests for hosts
// that are not this one, and puts the [Caller] that a token names into the context.
// [Require] lets a handler run for callers of a scope. The daemon makes the guard from
// its [[token]] rows; package web knows nothing of sessions and imports package turns
// only.
//
// Begin at [Guard.Handler] in guard.go; token.go has tokens and their hashes, connections.go
// says which connections the listener keeps.
package web
