package api

import (
	"nexus/turns"
	"time"
)

// GetContext is context.get.
type GetContext struct {
	At     turns.ID  `json:"at,omitzero"`
	Recipe turns.Raw `json:"recipe,omitzero"`           // of a context that was served: that one again
	Format string    `json:"format,omitempty,omitzero"` // otel (default), openai, anthropic, gemini
	// Model is the model that is to be called: signatures that another one made are left out. "":
	// in a provider's format that of the newest turn, or the session's if it was set since; in
	// otel all of them are there.
	Model  string  `json:"model,omitempty,omitzero"`
	Policy *Policy `json:"policy,omitempty,omitzero"`
	Budget uint64  `json:"budget,omitempty,omitzero"`
	Query  string  `json:"query,omitempty,omitzero"` // brings back what answers it of the turns that the context does not show whole
	// QueryTokens bounds what Query brings back; 0: an eighth of the budget, 8,000 at most.
	QueryTokens uint64 `json:"query_tokens,omitempty,omitzero"`
	Explain     bool   `json:"explain,omitempty,omitzero"`
	// Recorded asks for what the model call of turn At was given, as far as the ledger
	// tells, with the turn's own messages and response; Before leaves the response out.
	Recorded bool `json:"recorded,omitempty,omitzero"`
	Before   bool `json:"before,omitempty,omitzero"`
	// Have names the caller's last reply in the same format and for the same model: then the
	// reply leaves out what the caller has.
	Have   *Have `json:"have,omitempty,omitzero"`
	Inline bool  `json:"inline,omitempty,omitzero"`
	WaitMS int   `json:"wait_ms,omitempty,omitzero"` // for a model, if a compaction is due
	Page
	Read
}

// Have names what a caller has of a context.
type Have struct {
	Fingerprint string `json:"fingerprint"`
	Preamble    string `json:"preamble_digest,omitempty,omitzero"` // "": the reply has system and tools
}

// Source says where a part of a context comes from.
type Source struct {
	Turn    turns.ID `json:"turn,omitzero"`    // none: a compaction that a view shows and nobody stored
	Session turns.ID `json:"session,omitzero"` // where it is not the session asked for
	Memory  turns.ID `json:"memory,omitzero"`  // with half memory: which one; none: the document, or several
	Half    string   `json:"half"`             // messages, response, replacement, or memory: in the system part
	Status  string   `json:"status"`
	Tokens  uint64   `json:"tokens"`
	Why     string   `json:"why,omitempty,omitzero"`

	Messages uint64 `json:"messages,omitempty,omitzero"` // with explain: how many of the context's messages come from it
}

// PreamblePart is a section of the system part, or all tools, by its tokens.
type PreamblePart struct {
	Type   string `json:"type"` // system, tools
	Name   string `json:"name,omitempty,omitzero"`
	Tokens uint64 `json:"tokens"`
}

// Context is context.get's reply.
type Context struct {
	Messages []turns.Raw `json:"messages"`
	// Keep is how many of the caller's messages stand before Messages: the first ones of the reply
	// that have names. 0: Messages are all.
	Keep           int             `json:"keep,omitempty,omitzero"`
	KeepPreamble   bool            `json:"keep_preamble,omitempty,omitzero"` // the caller's system and tools are those of this context, and not in it
	Partial        string          `json:"partial,omitempty,omitzero"`       // a piece of the JSON of a message larger than a page
	PartialEnd     bool            `json:"partial_end,omitempty,omitzero"`   // it is the last piece
	System         turns.Raw       `json:"system"`                           // in the format's own form; null where there is none
	Tools          []turns.Raw     `json:"tools,omitzero"`
	Tokens         uint64          `json:"tokens"`
	Budget         uint64          `json:"budget"`
	Overhead       uint64          `json:"overhead"`
	Reported       uint64          `json:"reported,omitempty,omitzero"`       // tokens and overhead by the provider's count of the last call, with an estimate of what came since; 0: none that counts here
	WindowGuess    bool            `json:"window_guessed,omitempty,omitzero"` // neither the session nor a known model states the window
	Fingerprint    string          `json:"fingerprint"`
	PreambleDigest string          `json:"preamble_digest,omitempty,omitzero"` // of system and tools in this format
	Recipe         turns.Raw       `json:"recipe"`
	Sources        []Source        `json:"sources"`
	Preamble       []PreamblePart  `json:"preamble,omitempty,omitzero"` // with explain: what each part of overhead takes
	Recorded       string          `json:"recorded,omitempty,omitzero"` // of a recorded context, how it is known: recipe, or path
	Compaction     CompactionState `json:"compaction"`
	Compacted      *turns.ID       `json:"compacted,omitempty,omitzero"` // the compaction that this call committed
	Flush          FlushState      `json:"flush"`
	Position       string          `json:"position"`
	Next           string          `json:"next,omitempty,omitzero"`
}

// Overflow is context.overflow.
type Overflow struct {
	ID     turns.ID `json:"id,omitzero"`
	Error  string   `json:"error"` // the provider's body or message
	Status int      `json:"status,omitempty,omitzero"`
	Model  string   `json:"model,omitempty,omitzero"`
	WaitMS int      `json:"wait_ms,omitempty,omitzero"`
	Format string   `json:"format,omitempty,omitzero"`
	Page
}

// Wait returns how long the request waits for a model.
func (r *GetContext) Wait() time.Duration { return time.Duration(r.WaitMS) * time.Millisecond }

// Wait returns how long the request waits for a model.
func (r *Overflow) Wait() time.Duration { return time.Duration(r.WaitMS) * time.Millisecond }

// Wait returns how long the request waits for a model.
func (r *RunCompaction) Wait() time.Duration { return time.Duration(r.WaitMS) * time.Millisecond }
