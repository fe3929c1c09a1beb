// Package paths loads the content of a root path for planning and rendering:
// the compaction in force and the halves of turns behind its cut, within bounds
// on memory. It also finds the tool calls that are open at a turn, and remembers
// the size of the path that it loaded last for a session.
//
// compactions, sessions, contexts, transfer and audit call it. It decides nothing
// and writes nothing. Begin at [Loader.Load].
package paths
