package api

import "nexus/turns"

// TurnName names a turn of a session.
type TurnName struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn"`
}

// SaveMemory is memory.save. The id is that of the memory.
type SaveMemory struct {
	ID         turns.ID   `json:"id,omitzero"`
	Kind       string     `json:"kind"` // daily, long_term, episodic, semantic
	Text       string     `json:"text"`
	Session    turns.ID   `json:"session,omitzero"`              // the session that saves it; its head is the source if no sources are named
	Sources    []TurnName `json:"sources,omitempty,omitzero"`    // the turns that it comes from
	From       []turns.ID `json:"from,omitempty,omitzero"`       // the memories that it derives from
	Supersedes turns.ID   `json:"supersedes,omitzero"`           // the memory that it replaces
	Trust      string     `json:"trust,omitempty,omitzero"`      // who states it: agent, person, tool; default: agent
	State      string     `json:"state,omitempty,omitzero"`      // proposed, accepted; default: accepted, proposed if a tool states it
	Visibility string     `json:"visibility,omitempty,omitzero"` // main, all, branch; default: branch for a fork, main for a main session or without a session, else all
	ValidFrom  *Time      `json:"valid_from,omitempty,omitzero"` // default: when it is stored
	Zone       string     `json:"zone,omitempty,omitzero"`       // IANA name of the time zone in which it was learned; default: UTC
	User       string     `json:"user,omitempty,omitzero"`       // who it is about
}

// Memory is a memory of an agent. If its text can't be read, Error says why.
type Memory struct {
	ID         turns.ID       `json:"id"`
	Agent      string         `json:"agent"`
	Kind       string         `json:"kind"`
	Text       string         `json:"text"`
	State      string         `json:"state"` // proposed, accepted, superseded, withdrawn
	Trust      string         `json:"trust"`
	Visibility string         `json:"visibility"`                        // main, all, branch
	Private    bool           `json:"private,omitempty,omitzero"`        // on a branch: seen by main sessions only
	Branch     *TurnName      `json:"branch,omitempty,omitzero"`         // seen where the path has this turn
	Sources    []MemorySource `json:"sources"`                           // where it was stated, also again later; at most 64
	From       []turns.ID     `json:"from,omitempty,omitzero"`           // the memories that it derives from
	Compaction *TurnName      `json:"compaction,omitempty,omitzero"`     // the compaction that learned it
	Episode    *TurnName      `json:"episode,omitempty,omitzero"`        // of a session's episode: the compaction or last turn up to which it tells
	Extracted  bool           `json:"extracted,omitempty,omitzero"`      // a model found it in a session that was reset
	Type       string         `json:"type,omitempty,omitzero"`           // what the summarizer called it
	Repeated   uint64         `json:"repeated,omitempty,omitzero"`       // events that stated the same later
	Supersedes turns.ID       `json:"supersedes,omitzero"`               // the memory that it replaces
	Superseded turns.ID       `json:"superseded_by,omitempty,omitzero"`  // the memory that replaces it
	With       turns.ID       `json:"withdrawn_with,omitempty,omitzero"` // the memory that it derives from, and that was withdrawn
	Reason     string         `json:"reason,omitempty,omitzero"`         // why it was withdrawn
	Time       Time           `json:"time"`                              // valid_from, or when it was stored
	Zone       string         `json:"zone,omitempty,omitzero"`
	User       string         `json:"user,omitempty,omitzero"`
	Position   string         `json:"position"`
	Error      Code           `json:"error,omitempty,omitzero"` // why there is no text: erased, corrupt
	MissingKey turns.ID       `json:"missing_key,omitempty,omitzero"`
	Duplicate  bool           `json:"duplicate,omitempty,omitzero"` // of a change: the same request was stored before
	Known      bool           `json:"known,omitempty,omitzero"`     // of memory.save: this memory said the same before; the request is evidence of it
}

// MemorySource is a turn that a memory comes from, with the hash of its event.
type MemorySource struct {
	Session turns.ID   `json:"session"`
	Turn    turns.ID   `json:"turn"`
	Hash    turns.Hash `json:"hash,omitzero"`
}

// WithdrawMemory is memory.withdraw.
type WithdrawMemory struct {
	ID      turns.ID `json:"id,omitzero"`
	Memory  turns.ID `json:"memory"`
	Reason  string   `json:"reason,omitempty,omitzero"`
	Session turns.ID `json:"session,omitzero"` // the session that withdraws it: it must see it
}

// WithdrawnMemory is memory.withdraw's reply: what depended on the memory.
type WithdrawnMemory struct {
	Memory
	Derived  []turns.ID `json:"derived"`                   // memories that derive from it, withdrawn with it; at most 1,000
	Replaced []turns.ID `json:"replaced"`                  // the chain of memories that it superseded, newest first; they stay superseded
	Cut      bool       `json:"cut,omitempty,omitzero"`    // there are more of one of the lists
	Later    []turns.ID `json:"later,omitempty,omitzero"`  // the chain of memories that superseded it; they stay in force
	Change   turns.ID   `json:"change,omitempty,omitzero"` // the id of the withdrawal
}

// PromoteMemory is memory.promote: a proposed memory is accepted, and one of a branch is
// seen on every path.
type PromoteMemory struct {
	ID         turns.ID `json:"id,omitzero"`
	Memory     turns.ID `json:"memory"`
	Visibility string   `json:"visibility,omitempty,omitzero"` // main, all; default: main if it is private, else all
	Session    turns.ID `json:"session,omitzero"`              // the session that promotes it: it must see it
}

// ListMemories is memory.list, newest first.
type ListMemories struct {
	Page
	Read
	Agent   string   `json:"agent,omitempty,omitzero"` // operator only: of one agent
	Kind    string   `json:"kind,omitempty,omitzero"`
	State   string   `json:"state,omitempty,omitzero"` // proposed, accepted, superseded, withdrawn; default: all
	Trust   string   `json:"trust,omitempty,omitzero"`
	Session turns.ID `json:"session,omitzero"` // as this session sees them at its head
	Since   *Time    `json:"since,omitempty,omitzero"`
	Hidden  bool     `json:"hidden,omitempty,omitzero"` // those of hidden sessions alone too
}

// MemoryList is memory.list's reply.
type MemoryList struct {
	Memories []Memory `json:"memories"`
	Next     string   `json:"next,omitempty,omitzero"`
}

// MemoryDocument is memory.document. Without a text it reads the agent's document; with
// one it replaces it.
type MemoryDocument struct {
	Read
	ID      turns.ID   `json:"id,omitzero"`
	Text    *string    `json:"text,omitzero"`         // "" is an empty document
	If      string     `json:"if,omitempty,omitzero"` // the version (0: none yet) or digest that it replaces; needed with a text
	Sources []TurnName `json:"sources,omitempty,omitzero"`
	Session turns.ID   `json:"session,omitzero"`         // the session that asks: a main session
	Agent   string     `json:"agent,omitempty,omitzero"` // operator only
}

// Document is a version of an agent's document.
type Document struct {
	Agent     string         `json:"agent"`
	Version   uint64         `json:"version"` // 0: the agent has none
	Digest    turns.Hash     `json:"digest,omitzero"`
	Text      string         `json:"text"`
	Sources   []MemorySource `json:"sources,omitempty,omitzero"`
	Time      *Time          `json:"time,omitempty,omitzero"`
	Position  string         `json:"position,omitempty,omitzero"`
	Duplicate bool           `json:"duplicate,omitempty,omitzero"`
}

// SearchMemories is memory.search: by words, in the memories in force.
type SearchMemories struct {
	Read
	Text     string   `json:"text"`
	Agent    string   `json:"agent,omitempty,omitzero"` // operator only
	Kind     string   `json:"kind,omitempty,omitzero"`
	Trust    string   `json:"trust,omitempty,omitzero"`
	Session  turns.ID `json:"session,omitzero"`          // as this session sees them at its head
	Hidden   bool     `json:"hidden,omitempty,omitzero"` // those of hidden sessions alone too
	Limit    int      `json:"limit,omitempty,omitzero"`
	HalfLife *uint64  `json:"half_life_days,omitempty,omitzero"` // after so many days a memory counts half; 0: never; default: 30
}

// MemoryHits is memory.search's reply, best first.
type MemoryHits struct {
	Hits []MemoryHit `json:"hits"`
	Cut  bool        `json:"cut,omitempty,omitzero"` // older memories were not searched
}

// MemoryHit is a memory that a search found.
type MemoryHit struct {
	Memory
	Score float64 `json:"score"`
}
