// Package explorertest has what tests of the explorer's rooms share: a daemon with pages, a browser
// without script, a session to look at, and hostile texts.
//
// Begin at [Start] and [LoggedIn].
package explorertest
