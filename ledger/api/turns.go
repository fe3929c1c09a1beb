package api

import "nexus/turns"

// ContextUsed says what context a call was made with.
type ContextUsed struct {
	Recipe      turns.Raw `json:"recipe,omitzero"`
	Fingerprint string    `json:"fingerprint,omitempty,omitzero"`
}

// AppendTurn is turn.append.
type AppendTurn struct {
	ID       turns.ID        `json:"id,omitzero"`
	Parent   turns.ID        `json:"parent,omitzero"`
	Messages []turns.Message `json:"messages"`
	Response *turns.Message  `json:"response,omitempty,omitzero" jsonschema:"nullable"`
	Model    string          `json:"model,omitempty,omitzero"`
	Usage    *turns.Usage    `json:"usage,omitempty,omitzero"`
	Time     *Time           `json:"time,omitempty,omitzero"`
	Meta     turns.Raw       `json:"meta,omitzero"`
	Context  *ContextUsed    `json:"context,omitempty,omitzero"`
}

// Gauge is how full the context is.
type Gauge struct {
	Tokens    uint64  `json:"tokens"`
	Budget    uint64  `json:"budget"`
	Pressure  float64 `json:"pressure"`
	Estimated bool    `json:"estimated"` // no provider counted; else tokens are what is left of its count without overhead
}

// CompactionState is idle, due, preparing, ready or paused.
type CompactionState struct {
	State string `json:"state"`
}

// Appended is turn.append's reply.
type Appended struct {
	ID         turns.ID        `json:"id"`
	Session    turns.ID        `json:"session"`
	Parent     *turns.ID       `json:"parent" jsonschema:"nullable"`
	Depth      uint64          `json:"depth"`
	Hash       turns.Hash      `json:"hash"`
	Position   string          `json:"position"`
	Context    Gauge           `json:"context"`
	Compaction CompactionState `json:"compaction"`
	Flush      FlushState      `json:"flush"`
	Open       []string        `json:"open_calls,omitempty,omitzero"` // tool calls that wait for their response
	Abandoned  []string        `json:"abandoned_calls,omitempty,omitzero"`
	Late       []string        `json:"late_calls,omitempty,omitzero"`
	CallsCut   bool            `json:"calls_cut,omitempty,omitzero"` // the lists of calls are longer than a reply may be
	Duplicate  bool            `json:"duplicate,omitempty,omitzero"` // the id was stored before; nothing was stored now
}

// GetTurn is turn.get; also compaction.get.
type GetTurn struct {
	ID turns.ID `json:"id"`
	Read
}

// ListTurns is turn.list.
type ListTurns struct {
	At turns.ID `json:"at,omitzero"` // list the path of this turn; default: the head
	Page
	Order string `json:"order,omitempty,omitzero"` // asc (default), desc
	Full  bool   `json:"full,omitempty,omitzero"`  // with messages and responses
	// From is the depth of the first turn of the list; 0: where the order begins. A page's next
	// goes before it.
	From uint64 `json:"from,omitempty,omitzero"`
	Read
}

// Turn is a turn or compaction; section 4 of the contract. A list without full
// leaves messages and response out.
type Turn struct {
	ID            turns.ID        `json:"id"`
	Session       turns.ID        `json:"session"`
	Parent        *turns.ID       `json:"parent" jsonschema:"nullable"`
	ParentSession turns.ID        `json:"parent_session,omitzero"` // where it is not the turn's own
	Type          string          `json:"type"`                    // normal, compaction
	Depth         uint64          `json:"depth"`
	Time          *Time           `json:"time,omitempty,omitzero"` // as the client claimed it
	Recorded      Time            `json:"recorded"`
	Model         string          `json:"model,omitempty,omitzero"`
	Messages      []turns.Message `json:"messages,omitempty,omitzero"`
	Response      *turns.Message  `json:"response" jsonschema:"nullable"`
	Usage         *turns.Usage    `json:"usage,omitempty,omitzero"`
	TokenCount    uint64          `json:"token_count"`
	ToolCalls     uint64          `json:"tool_call_count"`
	Pending       bool            `json:"pending,omitempty,omitzero"`
	OpenCalls     uint64          `json:"open_call_count,omitempty,omitzero"`
	HasChildren   bool            `json:"has_children"`
	Meta          turns.Raw       `json:"meta,omitzero"`
	Context       *ContextUsed    `json:"context,omitempty,omitzero"`
	Hash          turns.Hash      `json:"hash"`
	PrevHash      turns.Hash      `json:"prev_hash"`
	Position      string          `json:"position"`
	Compaction    *Compaction     `json:"compaction" jsonschema:"nullable"`
	// System and Tools are the digests of the system part and of the tools in force at the turn: those of a preamble that has
	// nothing else. turn.get only, and not where the settings can't be read.
	System    turns.Hash `json:"system_digest,omitzero"`
	Tools     turns.Hash `json:"tools_digest,omitzero"`
	Note      *Note      `json:"note,omitempty,omitzero"`      // of a person, in the session that was asked
	Duplicate bool       `json:"duplicate,omitempty,omitzero"` // compaction.record: the id was stored before; nothing was stored now
	Error     Code       `json:"error,omitempty,omitzero"`     // lists only: why the turn's content can't be read

	MissingKey turns.ID `json:"missing_key,omitzero"` // lists only, with error: the content key that is not in the key store
	// Redacted is the parts that something was taken out of for ever, numbered from 1; 0 is what is no part.
	Redacted []int `json:"redacted,omitempty,omitzero"`
	// AfterLoss says that an event before it on its chain is lost: the turn is as it was
	// stored, but what led to it is not known. turn.get only.
	AfterLoss bool `json:"after_loss,omitempty,omitzero"`
}

// Note is what a person noted on a turn.
type Note struct {
	Text string `json:"text"`
	Time Time   `json:"time"` // when it was stored
}

// NoteTurn is turn.note. The turn is one of the session's own, on any branch, or inherited. An
// empty text takes the note back.
type NoteTurn struct {
	ID   turns.ID `json:"id,omitzero"`
	Turn turns.ID `json:"turn"`
	Text string   `json:"text"`
}

// TurnList is turn.list's and compaction.list's reply.
type TurnList struct {
	Turns []Turn `json:"turns"`
	Next  string `json:"next,omitempty,omitzero"`
}
