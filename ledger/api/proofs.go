package api

import "nexus/turns"

// GetCheckpoint is audit.checkpoint.
type GetCheckpoint struct {
	// ID is that of the call, as every change has one. It is not stored: a call again signs what is there then.
	ID turns.ID `json:"id,omitzero"`
}

// Checkpoint is a signed checkpoint of the log.
type Checkpoint struct {
	Note   string     `json:"note"` // as c2sp.org/tlog-checkpoint spells it
	Origin string     `json:"origin"`
	Size   Uint       `json:"size"` // events that it covers
	Root   turns.Hash `json:"root"`
}

// GetKey is audit.key.
type GetKey struct{}

// CheckpointKey is audit.key's reply.
type CheckpointKey struct {
	Key    string `json:"key"` // public: what checks the notes
	Origin string `json:"origin"`
}

// GetConsistency is audit.consistency.
type GetConsistency struct {
	From Uint   `json:"from"`                    // of the tree that the caller knows
	Note string `json:"note,omitempty,omitzero"` // the note that says so; one of the ledger's own key over a larger tree stops its signing
}

// Consistency is audit.consistency's reply.
type Consistency struct {
	Checkpoint
	Key  string       `json:"key"`
	From Uint         `json:"from"`
	Path []turns.Hash `json:"path"` // by RFC 6962, section 2.1.2
}

// GetProof is audit.proof.
type GetProof struct {
	Turn     turns.ID `json:"turn"`
	Disclose string   `json:"disclose,omitempty,omitzero"` // none (default), turn, part, session
	Parts    []int    `json:"parts,omitempty,omitzero"`    // of part: from 1, in the order of messages, then response; 0: what holds them (who said each, model, meta), unless it was redacted
}

// Disclosures of a proof.
const (
	DiscloseNone    = "none"
	DiscloseTurn    = "turn"
	DisclosePart    = "part"
	DiscloseSession = "session"
)

// TurnProof is audit.proof's reply: the two files.
type TurnProof struct {
	Proof string `json:"proof"` // c2sp.org/tlog-proof@v1
	Event string `json:"event"` // the header, and what is disclosed: JSON
	Size  Uint   `json:"size"`
	Index Uint   `json:"index"` // of the leaf: the position less one
	Key   string `json:"key"`
}
