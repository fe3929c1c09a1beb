// Package engine joins the rooms of a daemon. It holds no logic: one room serves each
// request, and [Engine] joins their methods, so that natsapi and tests have one value
// to call.
//
// The rooms, from the lowest to the highest. Each may call those before it, and
// none after it; the import test holds the whole graph.
//
//	page         how much a reply holds, and where the next one begins
//	cache        values that can be made again, within one budget
//	content      bodies and blobs: sealing, opening, sizes, preambles
//	metrics      the metrics for Prometheus
//	reader       finds sessions, turns and the settings in force
//	paths        loads the content of a root path, within bounds
//	writer       the only path from a decision to the log
//	policies     stores compaction policies, and lists them
//	compactions  decides when to compact, and compacts
//	sessions     creates, changes, resets; appends turns
//	forks        opens a session at a turn of another
//	contexts     the exact messages of a model call
//	history      lists of sessions, turns, compactions; trees
//	transfer     export and import
//	audit        verification
//
// State lives in one room each: the caches in their budget, the queue of writers
// in writer, the background jobs in compactions. To follow one request, read
// sessions.Append down to writer.Mutate.
package engine
