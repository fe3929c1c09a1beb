package api

import "nexus/turns"

// FlushState says whether a memory flush is due, and in which cycle. The zero
// value: the session's policy has none.
type FlushState struct {
	Due   bool   `json:"due"`
	Cycle uint64 `json:"cycle"`
}

// BeginFlush is flush.begin.
type BeginFlush struct {
	ID    turns.ID `json:"id,omitzero"`
	Cycle uint64   `json:"cycle"` // as an ack or a context said
}

// BegunFlush is flush.begin's reply: what the agent's own model is asked, behind
// the context and with the agent's tools.
type BegunFlush struct {
	ID          turns.ID `json:"id"`
	Cycle       uint64   `json:"cycle"`
	Try         uint64   `json:"try"`
	Prompt      string   `json:"prompt"`
	SilentToken string   `json:"silent_token"`
	Model       string   `json:"model"` // of the session; empty: it names none
	Lease       Time     `json:"lease"` // until when nobody else begins it
	Position    string   `json:"position"`
	Duplicate   bool     `json:"duplicate,omitempty,omitzero"` // the id was stored before; nothing was stored now
}

// DoneFlush is flush.done.
type DoneFlush struct {
	ID       turns.ID     `json:"id,omitzero"`
	Cycle    uint64       `json:"cycle"`
	Response string       `json:"response,omitempty,omitzero"` // text of the last reply
	Saved    uint64       `json:"saved"`                       // memories
	Usage    *turns.Usage `json:"usage,omitempty,omitzero"`
	Error    string       `json:"error,omitempty,omitzero"` // why it failed
}

// EndedFlush is flush.done's reply.
type EndedFlush struct {
	ID        turns.ID `json:"id"`
	Cycle     uint64   `json:"cycle"`
	State     string   `json:"state"` // silent, done (the response is kept and shown to nobody), failed
	Position  string   `json:"position"`
	Duplicate bool     `json:"duplicate,omitempty,omitzero"`
}
