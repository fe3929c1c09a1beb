package view

import (
	"time"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Prices are the prices of tokens, for [policy.Cost]: those of the session's model,
// and of the model that writes summaries. The zero Price means that no model is
// asked.
type Prices struct {
	Model, Summarizer tokens.Price
}

// Path is the part of a root path that planning and rendering see: everything from
// the cut of the compaction in force to the head. The engine loads it once and
// shares it; no function here changes it.
type Path struct {
	Session  turns.ID
	Head     lineage.Node       // the zero Node: no turn yet
	InForce  *InForce           // nil: the path has no compaction
	Halves   []summary.HalfTurn // halves of normal turns at or after the cut, in path order, without compaction turns
	Overhead uint64             // tokens of system and tools, which Halves do not hold
	Limits   turns.Limits       // the session's; zero fields mean the policy's defaults

	// Counter counted the Tokens of the halves; nil: approx-1.
	Counter tokens.Counter
	// Sums holds the totals of the path if Halves are not loaded; nil: they are
	// loaded.
	Sums *Sums
	// Totals are of Halves; nil: they are added up each time. See [Path.WithTotals].
	Totals *Totals
	// Prices is what calls and summaries cost; zero fields are unknown.
	Prices Prices
	// View says what every context shows shortened, without a compaction.
	View policy.Prune
	// Changed is the depth of the last turn at which something else came into force
	// than its call saw. Counts that providers reported up to it belong to other
	// contexts.
	Changed uint64
	// Idle is how long ago the newest turn was recorded; 0: unknown.
	Idle time.Duration
	// Cold reports that the newest turn is older than prompt caches last.
	Cold bool
}

// InForce is a compaction in force.
type InForce struct {
	Node lineage.Node
	Span turns.Span
	Body turns.CompactionBody
	// Erased: a session that its summary was made of was erased, and Body is empty.
	Erased bool
	// Meta is that of Body, if it is decoded already: a path that is kept is asked for it often.
	Meta *Meta
}

// Status says how a context shows a half turn or what replaces it.
type Status string

// The statuses, as in protocol JSON.
const (
	Verbatim  Status = "verbatim"
	Elided    Status = "elided"
	Trimmed   Status = "trimmed"
	Cleared   Status = "cleared"
	InSummary Status = "summary"
	Synthetic Status = "synthetic"
	Erased    Status = "erased"
	Memory    Status = "memory"   // of the agent's memories, in the system part
	Recalled  Status = "recalled" // a piece of an older turn, that a query brought back
	Dropped   Status = "dropped"  // a memory for which there was no room
)

// Source says where messages of a context come from.
type Source struct {
	Turn   turns.Ref
	Half   turns.Half
	Status Status
	Tokens uint64
	Why    string // for --explain: why the half is in, shortened or out
}

// Context holds the exact messages for the next model call.
type Context struct {
	Messages []turns.Message
	Origins  []int    // for each message, the index of its source in Sources
	Sources  []Source // in path order, the summary first
	Tokens   uint64   // of Messages, by the path's counter, without Overhead
}
