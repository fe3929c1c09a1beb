package view

import (
	"time"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Prices are what tokens cost, for [policy.Cost]: those of the session's model, and of
// the model that summaries are asked of; the zero Price: nobody is asked.
type Prices struct {
	Model, Summarizer tokens.Price
}

// Path is what planning and rendering see of a root path: everything from the
// cut of the compaction in force to the head. It is loaded once and shared; no
// function here changes it.
type Path struct {
	Session  turns.ID
	Head     lineage.Node       // the zero Node: before the first turn
	InForce  *InForce           // nil: no compaction counts on this path
	Halves   []summary.HalfTurn // halves of normal turns at or after the cut, in path order; compaction turns skipped
	Overhead uint64             // tokens of system and tools, counted apart
	Limits   turns.Limits       // of the session; zero fields mean the policy's defaults

	// Counter is what Tokens were counted by; nil: approx-1.
	Counter tokens.Counter
	// Sums is what the path came to, where Halves are not loaded; nil: they are.
	Sums *Sums
	// Prices is what calls and summaries cost; zero fields are not known.
	Prices Prices
	// View is what is shown shortened in every context, without a compaction.
	View policy.Prune
	// Changed is the depth of the last turn at which something else came in force
	// than what its call saw: what providers counted up to there is of other contexts.
	Changed uint64
	// Idle is how long ago the newest turn was recorded; 0: not known.
	Idle time.Duration
	// Cold says that the newest turn is older than prompt caches last.
	Cold bool
}

// InForce is the compaction in force on a path.
type InForce struct {
	Node lineage.Node
	Span turns.Span
	Body turns.CompactionBody
}

// Status says how a half turn, or what stands for it, is shown in a context.
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
)

// Source says where messages of a context come from.
type Source struct {
	Turn   turns.Ref
	Half   turns.Half
	Status Status
	Tokens uint64
	Why    string // for --explain: why it is in, shortened or out
}

// Context is the exact messages for the next model call.
type Context struct {
	Messages []turns.Message
	Origins  []int    // for each message, the index in Sources that it comes from
	Sources  []Source // path order, the summary first
	Tokens   uint64   // of Messages, by the path's counter; Overhead is not in it
}
