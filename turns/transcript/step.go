package transcript

import (
	"time"

	"nexus/turns"
)

// Step is one change to a ledger that imports a transcript. Exactly one field is set.
// What a step names, a step before it stores. Every ID is derived from the source, so
// a step that is done twice stores once.
type Step struct {
	Open       *Open
	Append     *Append
	Fork       *Fork
	Compaction *Compaction
}

// ID returns the id of the session, turn or compaction that the step stores.
func (s Step) ID() turns.ID {
	switch {
	case s.Open != nil:
		return s.Open.ID
	case s.Fork != nil:
		return s.Fork.ID
	case s.Append != nil:
		return s.Append.ID
	}
	return s.Compaction.ID
}

// IDs returns the ids that a step names: of what it stores, and of the sessions and turns that
// this goes on from or may go to.
func (s Step) IDs() (ids []turns.ID) {
	add := func(all ...turns.ID) {
		for _, id := range all {
			if !id.IsZero() {
				ids = append(ids, id)
			}
		}
	}
	switch {
	case s.Open != nil:
		add(s.Open.ID, s.Open.SpawnedBy.Session, s.Open.Exported.Session)
	case s.Fork != nil:
		add(s.Fork.ID, s.Fork.At.Session, s.Fork.At.Turn, s.Fork.SpawnedBy.Session, s.Fork.First)
		for _, ref := range s.Fork.Else {
			add(ref.Session, ref.Turn)
		}
	case s.Append != nil:
		add(s.Append.Session, s.Append.ID, s.Append.Parent, s.Append.Branch)
	case s.Compaction != nil:
		add(s.Compaction.Session, s.Compaction.ID, s.Compaction.Parent)
	}
	return ids
}

// Open creates a session. Zero fields: the source does not state them.
type Open struct {
	ID        turns.ID
	Time      time.Time
	Model     string
	SpawnedBy turns.Ref // Turn may be zero
	// Exported is the session and the last turn of the ledger that the transcript was
	// written from, by [WrittenSession].Through; zero: it is no such transcript.
	Exported turns.Ref `json:",omitzero"`
	System   []turns.Section
	Tools    []turns.Raw // JSON objects
	Meta     turns.Raw   // a JSON object: where it came from
}

// Append adds a turn after Parent. Messages is not nil.
type Append struct {
	Session  turns.ID
	ID       turns.ID
	Parent   turns.ID // a turn of Session, or the fork point, or zero for the first
	Time     time.Time
	Model    string
	Messages []turns.Message
	Response *turns.Message // nil: pending
	Usage    *turns.Usage
	Meta     turns.Raw // a JSON object: the source's record ids
	// Branch is the session that takes the turn if the ledger has another turn after
	// Parent: it is made as a fork at Parent. Zero: such a turn is a conflict.
	Branch turns.ID `json:",omitzero"`
	// Continues says that the turn, which has no Parent, may be none of the session's
	// first: the source does not say what is before it. It follows what the ledger has.
	Continues bool `json:",omitzero"`
}

// Fork creates session ID from turn At of another session.
type Fork struct {
	ID   turns.ID
	At   turns.Ref
	Time time.Time

	SpawnedBy turns.Ref // Turn may be zero; zero: no sub-agent, or unknown
	Meta      turns.Raw
	// First is the turn that the fork begins with, where that turn has the same id in all
	// files: if the session of At has it, no fork is needed. Zero: unknown.
	First turns.ID `json:",omitzero"`
	// Else are other sessions that may have the turn of At, if the session of At has it
	// not: the source does not say on which branch the turn is.
	Else []turns.Ref `json:",omitzero"`
}

// Compaction records a compaction that the source's own agent made.
type Compaction struct {
	Session      turns.ID
	ID           turns.ID
	Parent       turns.ID
	Time         time.Time
	Model        string          // that made it; "": the session's, or unknown
	Usage        *turns.Usage    // of the call that made it; nil: not stated
	Trigger      string          // manual or threshold
	Replacement  []turns.Message // what the agent saw instead; nil where the source does not say
	Summary      string
	FirstKept    turns.ID // first turn kept verbatim; zero: none
	TokensBefore uint64
	Dropped      bool            // nothing stands for the covered turns
	Cleared      []ClearedResult // tool results that the source cleared in place, nothing covered
	Meta         turns.Raw
}

// ClearedResult names a tool result that the source's agent stopped showing.
type ClearedResult struct {
	Turn turns.ID // on the path of the compaction's session
	Call string   // id of the tool call whose response was cleared
}

// Loss is one line of the loss report: something of the source that the ledger does
// not hold exactly as it stood.
type Loss struct {
	Line   int    `json:"line,omitzero"`   // 1-based line of the source; 0: the whole
	Kind   string `json:"what"`            // stored, repaired, skipped, kept_first
	Reason string `json:"reason"`          // a sentence
	Count  int    `json:"count,omitzero"`  // how many such; 0 means 1
	Record string `json:"record,omitzero"` // the source's own id, where it has one
	Later  bool   `json:"later,omitzero"`  // turns that may still grow: a later read brings them, or [Options].Final

	Usage *turns.Usage `json:"usage,omitempty,omitzero"` // tokens that the ledger does not count
}
