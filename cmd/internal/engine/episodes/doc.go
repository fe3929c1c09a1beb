// Package episodes keeps what became of a session as a memory for the other sessions of its
// agent: its episode. It is the summary of the compaction in force, and at the end of the
// session a summary of all of it. A later episode supersedes the one before.
//
// Nothing waits for it. It follows the projections, so a daemon that dies between a compaction
// and its episode leaves it to the next one. The ids of episodes follow from turns, so any
// number of daemons store each once. No model is asked. See docs/decisions/0046-episodes.md.
//
// The daemon runs it. Begin at [Episodes.StoreEpisodes].
package episodes
