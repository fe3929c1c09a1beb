// Package reader finds sessions, turns, heads, the settings in force, and how full a
// context is. It returns only what the caller may see; anything else is not found.
//
// The projections answer. They run behind the log, so reader gives a negative answer,
// or one about a head, only after they have applied the end that the session's chain
// had when the request came ([Reader.FindSession] with fresh).
//
// The rooms above call it. It writes nothing and loads no path; see package paths
// for that. Begin at [Reader.FindSession] and [Reader.FindTurn].
package reader
