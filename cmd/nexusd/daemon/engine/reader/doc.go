// Package reader finds what is stored: sessions, turns, heads, the settings in
// force, and how full a context is. It checks that what it returns is the
// caller's; anything else is not found.
//
// The projections answer. They run behind the log, so a negative answer, and one
// about a head, is given only after they have passed the position that the
// session's chain had when the request came ([Reader.FindSession] with fresh).
//
// The rooms above call it. It writes nothing and loads no path; see package paths
// for that. Begin at [Reader.FindSession] and [Reader.FindTurn].
package reader
