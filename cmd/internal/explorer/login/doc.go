// Package login knows who looks at the explorer: codes that are redeemed once, and the
// cookies that they are redeemed for.
//
// The explorer calls it. It holds hashes in memory alone, and reads the clock that it is
// given.
//
// Begin at [Desk].
package login
