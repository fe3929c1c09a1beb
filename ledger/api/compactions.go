package api

import "nexus/turns"

// Compaction is the compaction part of a turn.
type Compaction struct {
	Policy        string          `json:"policy"`
	PolicyDigest  turns.Hash      `json:"policy_digest,omitzero"`
	Trigger       turns.Trigger   `json:"trigger"`
	Mode          string          `json:"mode"`
	Tier          string          `json:"tier,omitempty,omitzero"`
	Model         string          `json:"model,omitempty,omitzero"` // that wrote the summary
	Provenance    string          `json:"provenance"`
	Scope         string          `json:"scope,omitempty,omitzero"` // lineage, or call: until a turn brings text of the user
	Replacement   []turns.Message `json:"replacement"`
	Nudge         []turns.Message `json:"nudge,omitempty,omitzero"` // shown after the newest message that it saw
	Summary       *string         `json:"summary" jsonschema:"nullable"`
	Through       *turns.ID       `json:"summarized_through" jsonschema:"nullable"`
	FirstKept     *turns.ID       `json:"first_kept" jsonschema:"nullable"`
	Split         bool            `json:"split"`
	SawThrough    *turns.ID       `json:"saw_through" jsonschema:"nullable"`
	Elisions      []Elision       `json:"elisions"`                  // the first ones
	Elided        uint64          `json:"elided,omitempty,omitzero"` // how many there are
	Dropped       bool            `json:"dropped,omitempty,omitzero"`
	Covered       uint64          `json:"covered"`
	TokensBefore  uint64          `json:"tokens_before"`
	TokensAfter   uint64          `json:"tokens_after"`
	Survival      turns.Raw       `json:"survival,omitzero"`
	Memories      turns.Raw       `json:"memories,omitzero"`              // [{kind?, text, source?: [{session, turn}]}]
	Usage         *turns.Usage    `json:"usage" jsonschema:"nullable"`    // null: no model was asked, or it did not say
	CostMicros    uint64          `json:"cost_micros,omitempty,omitzero"` // millionths of a US dollar
	Cost          float64         `json:"cost"`                           // the same in US dollars
	Focus         string          `json:"focus,omitempty,omitzero"`
	FromOriginals bool            `json:"from_originals,omitempty,omitzero"`
	Flush         string          `json:"flush"` // what became of the flush before it: done, silent, failed, expired, skipped; "": its policy has none
	DurationMS    uint64          `json:"duration_ms"`
	Since         *Since          `json:"since,omitempty,omitzero"` // by compaction.get
}

// Since is the calls that were made with a compaction in force, on the way to the
// session's head, as far as their usage was reported: against what its trigger
// expected. What the first wrote to the cache is what the rewrite took.
type Since struct {
	Calls uint64      `json:"calls"` // at most 10,000 are looked at
	First turns.Usage `json:"first"`
	Total turns.Usage `json:"total"`
}

// Elision is one part that is shown shortened.
type Elision struct {
	Turn    turns.ID `json:"turn"`
	Half    string   `json:"half"`
	Message uint64   `json:"message"`
	Part    uint64   `json:"part"`
	Method  string   `json:"method"`
	Before  uint64   `json:"chars_before"`
	After   uint64   `json:"chars_after"`
	// Reduction is the share of the characters that is not shown, in [0, 1].
	Reduction float64 `json:"reduction"`
	Tool      string  `json:"tool,omitempty,omitzero"` // of a tool result: the name of the tool
}

// RunCompaction is compaction.run.
type RunCompaction struct {
	ID            turns.ID `json:"id,omitzero"`
	Policy        *Policy  `json:"policy,omitempty,omitzero"`
	At            turns.ID `json:"at,omitzero"`
	DryRun        bool     `json:"dry_run,omitempty,omitzero"`
	FromOriginals bool     `json:"from_originals,omitempty,omitzero"`
	Focus         string   `json:"focus,omitempty,omitzero"`
	WaitMS        int      `json:"wait_ms,omitempty,omitzero"`
	Budget        uint64   `json:"budget,omitempty,omitzero"`  // tokens that the context may have, system and tools included; 0: the policy's
	AtOnce        bool     `json:"at_once,omitempty,omitzero"` // no model is asked, and the reply has the compaction
}

// CompactionRun is compaction.run's reply: the turn, or for a dry run the plan.
type CompactionRun struct {
	ID         turns.ID `json:"id,omitzero"` // of the compaction that is running
	Compaction *Turn    `json:"compaction,omitempty,omitzero"`
	Plan       *Plan    `json:"plan,omitempty,omitzero"`
	State      string   `json:"state"` // done, planned, running
}

// Plan is a compaction that was not made.
type Plan struct {
	Digest       turns.Hash    `json:"digest"`
	Policy       string        `json:"policy"`
	Trigger      turns.Trigger `json:"trigger"`
	Through      *turns.ID     `json:"summarized_through" jsonschema:"nullable"`
	FirstKept    *turns.ID     `json:"first_kept" jsonschema:"nullable"`
	Split        bool          `json:"split"`
	Covered      uint64        `json:"covered"`
	Kept         uint64        `json:"kept"` // half turns kept
	TokensBefore uint64        `json:"tokens_before"`
	TokensTarget uint64        `json:"tokens_target"`
	TokensKept   uint64        `json:"tokens_kept"`
	Shortened    uint64        `json:"shortened,omitempty,omitzero"` // parts that it would show shortened, where it covers nothing
	SummaryMax   uint64        `json:"summary_max"`
}

// ListCompactions is compaction.list.
type ListCompactions struct {
	At      turns.ID `json:"at,omitzero"`                // a turn, at which those that are listed are in force; none: the head
	Outline bool     `json:"outline,omitempty,omitzero"` // without what they show: replacement, nudge, summary and memories
	Page
	Read
}

// ExpandCompaction is compaction.expand. It names a turn by ID, by Handle, or by a call.
type ExpandCompaction struct {
	ID     turns.ID  `json:"id,omitzero"`               // a compaction; or any turn, as a search hit, a source or an elision names it
	Handle string    `json:"handle,omitempty,omitzero"` // t12: the turn that a summary cites, on the path of ID, else of the head
	Call   string    `json:"call,omitempty,omitzero"`   // id of a tool call: the turns with it and its results
	Levels turns.Raw `json:"levels,omitzero"`           // 1 (default) or "all"
	Line   uint64    `json:"line,omitempty,omitzero"`   // of what compaction ID shows, from 1: what that line rests on
	Lines  bool      `json:"lines,omitempty,omitzero"`  // all lines
	Full   bool      `json:"full,omitempty,omitzero"`
	Page
	Read
}

// Expanded is compaction.expand's reply.
type Expanded struct {
	Turns []Turn `json:"turns"`
	// Of one turn: what the session's context shows of it, and the compactions that cover
	// it, the innermost first.
	State     string        `json:"state,omitempty,omitzero"` // live, elided (by a compaction), shortened (by the policy, in each context), compacted, other_branch
	CoveredBy []turns.ID    `json:"covered_by,omitempty"`
	Lines     []SummaryLine `json:"lines,omitempty"`            // with line or lines
	Partial   bool          `json:"partial,omitempty,omitzero"` // of the oldest covered turns only the beginnings were read
	Next      string        `json:"next,omitempty,omitzero"`
}

// SummaryLine is a line that stands for covered turns, and what it rests on.
type SummaryLine struct {
	Line    uint64     `json:"line"`
	Text    string     `json:"text"`
	Frame   bool       `json:"frame,omitempty,omitzero"` // a tag, a heading or blank: it rests on nothing
	Facts   uint64     `json:"facts"`
	Missing []string   `json:"missing,omitempty"`       // its facts that no covered turn holds
	Turns   []LineTurn `json:"turns"`                   // best first; empty: it rests on none
	More    uint64     `json:"more,omitempty,omitzero"` // other turns that hold something of it
}

// LineTurn is a covered turn that holds something of a line, and where.
type LineTurn struct {
	Session turns.ID   `json:"session"`
	Turn    turns.ID   `json:"turn"`
	Depth   uint64     `json:"depth"`
	Hash    turns.Hash `json:"hash"`
	Half    string     `json:"half"`
	Message uint64     `json:"message"`
	Part    uint64     `json:"part"`
	Score   float64    `json:"score"` // share of the line that the turn holds, rare words more
	Cited   bool       `json:"cited,omitempty,omitzero"`
	Quoted  bool       `json:"quoted,omitempty,omitzero"` // it has the line, or a part of it, word for word
	Facts   []string   `json:"facts,omitempty"`
	Excerpt string     `json:"excerpt"`
}

// ListLost is compaction.lost.
type ListLost struct {
	ID    turns.ID `json:"id,omitzero"`     // a compaction; none: the session's context as it is
	Kinds []string `json:"kinds,omitempty"` // user, errors, commands, paths, identifiers, numbers; none: all
	// PerKind bounds the facts of each kind. 0: not.
	PerKind int `json:"per_kind,omitempty,omitzero"`
	Page
	Read
}

// LostList is compaction.lost's reply: the facts by kind in the order of [ListLost], those
// that most halves of turns hold first. Of a long history it is about the newest turns that
// are covered. Next goes on in those before them.
type LostList struct {
	Facts    []LostFact `json:"facts"`
	Count    uint64     `json:"count"`                      // on all pages about these turns
	Survival turns.Raw  `json:"survival"`                   // for each kind: total, and kept in the context
	Partial  bool       `json:"partial,omitempty,omitzero"` // there was more than one request reads
	From     uint64     `json:"from,omitempty,omitzero"`    // depth of the oldest covered turn that was compared; 0: there is no older one
	// Compaction is the one that the list is about; null: none covers or shortens anything.
	Compaction *turns.ID `json:"compaction,omitempty"`
	Dropped    bool      `json:"dropped,omitempty,omitzero"` // the system that made the compaction showed nothing in place of it
	Next       string    `json:"next,omitempty,omitzero"`
}

// LostFact is a fact that is stored and that the context does not hold.
type LostFact struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	Uses uint64 `json:"uses"` // halves of turns that hold it
	// The newest of them, and the compaction that first covered it; null: it is only
	// shortened.
	Session   turns.ID   `json:"session"`
	Turn      turns.ID   `json:"turn"`
	Depth     uint64     `json:"depth"`
	Half      string     `json:"half"`
	Hash      turns.Hash `json:"hash"`
	CoveredBy *turns.ID  `json:"covered_by" jsonschema:"nullable"`
}

// TakeCompaction is compaction.take.
type TakeCompaction struct {
	Policy        *Policy `json:"policy,omitempty,omitzero"`
	Focus         string  `json:"focus,omitempty,omitzero"`
	FromOriginals bool    `json:"from_originals,omitempty,omitzero"`
	Page
	Read
}

// TakenCompaction is compaction.take's reply: what a model of the agent's own
// needs to write the summary. Content comes in pages, to be joined.
type TakenCompaction struct {
	Plan      string `json:"plan"` // to be given back with the summary
	Prompt    string `json:"prompt,omitempty,omitzero"`
	Content   string `json:"content"`
	MaxTokens uint64 `json:"max_tokens"`
	Details   *Plan  `json:"details" jsonschema:"nullable"`
	Next      string `json:"next,omitempty,omitzero"`
}

// SubmitCompaction is compaction.submit.
type SubmitCompaction struct {
	ID         turns.ID     `json:"id,omitzero"`
	Plan       string       `json:"plan"`
	Text       string       `json:"text"`
	Usage      *turns.Usage `json:"usage,omitempty,omitzero"`
	SawThrough turns.ID     `json:"saw_through,omitzero"` // last turn that the agent had in view, if that is later than the plan's
}

// RecordCompaction is compaction.record: a compaction that another system made,
// brought in by an importer. Its provenance is "imported".
type RecordCompaction struct {
	ID           turns.ID        `json:"id,omitzero"`
	Parent       turns.ID        `json:"parent,omitzero"`
	Time         *Time           `json:"time,omitempty,omitzero"`
	Trigger      string          `json:"trigger,omitempty,omitzero"`
	Model        string          `json:"model,omitempty,omitzero"` // that made it
	Usage        *turns.Usage    `json:"usage,omitempty,omitzero"` // of the call that made it
	Replacement  []turns.Message `json:"replacement,omitempty,omitzero"`
	Summary      string          `json:"summary,omitempty,omitzero"`
	FirstKept    turns.ID        `json:"first_kept,omitzero"`
	TokensBefore uint64          `json:"tokens_before,omitempty,omitzero"`
	Dropped      bool            `json:"dropped,omitempty,omitzero"`
	Cleared      []ClearedResult `json:"cleared,omitempty,omitzero"`
	Meta         turns.Raw       `json:"meta,omitzero"`
}

// ClearedResult names a tool result that is shown cleared.
type ClearedResult struct {
	Turn turns.ID `json:"turn"`
	Call string   `json:"call"`
}
