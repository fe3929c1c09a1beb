package api

import "nexus/turns"

// RedactTurn is turn.redact. Only the operator asks it. What it takes out can't be read any more, by anyone; a marker stands in its
// place, and what stays of the turn still proves.
type RedactTurn struct {
	// ID makes a call again the same call, where it is of one turn: spans count in what the turn has now.
	ID turns.ID `json:"id,omitzero"`
	// Turn is the turn, or a compaction. With Text it may be left out: then everything that the session has of the text is meant,
	// in turns, summaries, settings, its title, and notes.
	Turn turns.ID `json:"turn,omitzero"`
	// Parts are taken out whole, numbered from 1, as audit.proof numbers them. With neither Parts, Spans nor Text: all parts.
	Parts []int `json:"parts,omitempty,omitzero"`
	// Spans are taken out of parts.
	Spans []RedactSpan `json:"spans,omitempty,omitzero"`
	// Text is taken out wherever it is, also where JSON or an address escapes it; 4 bytes at least.
	Text string `json:"text,omitempty,omitzero"`
	// Ground is a code, as that of [EraseSession].
	Ground string `json:"ground,omitempty,omitzero"`
	// DryRun says what would be done, and does nothing.
	DryRun bool `json:"dry_run,omitzero"`
}

// RedactSpan is bytes From to To, without the latter, of the text of a part: of its content, or of the JSON of a call or a response.
type RedactSpan struct {
	Part int `json:"part"`
	From int `json:"from"`
	To   int `json:"to"`
	// Digest is the SHA-256, in hex, of the text that From and To count in. A text that changed since is a conflict. Without
	// it so is a part that something was taken out of before.
	Digest string `json:"digest,omitempty,omitzero"`
}

// Redacted says what was redacted, and what became of it in each store that had it.
type Redacted struct {
	Session turns.ID `json:"session"`
	// Done: nothing is pending. A call again says what became of what was.
	Done   bool            `json:"done"`
	DryRun bool            `json:"dry_run,omitzero"`
	Events []RedactedEvent `json:"events"` // by this call
	Stores []ErasedStore   `json:"stores"`
}

// RedactedEvent is an event of a session that was redacted, or would be.
type RedactedEvent struct {
	Event turns.ID `json:"event"` // a turn's is that of the turn
	Kind  string   `json:"kind"`
	Depth uint64   `json:"depth,omitzero"`           // of a turn or a compaction
	Parts []int    `json:"parts,omitempty,omitzero"` // that something was taken out of, numbered from 1
	Rest  bool     `json:"rest,omitzero"`            // something was taken out of what is no part: settings, a title, meta
	Count int      `json:"count"`                    // how many markers there are by this call
	// Stays counts what could not be taken out of it, as it pairs calls with responses or names a tool or a model.
	Stays    int    `json:"stays,omitempty,omitzero"`
	Position string `json:"position,omitempty,omitzero"` // of the event that redacts it
}

// RedactMemories is memory.redact. Only the operator asks it.
type RedactMemories struct {
	// ID is that of the call, as every change has one. This one has the same outcome each time, so it is not stored.
	ID    turns.ID `json:"id,omitzero"`
	Agent string   `json:"agent"`
	// Text is taken out of what the agent saved: memories that have it are withdrawn, and can't be read any more; its document has markers.
	Text   string `json:"text"`
	Ground string `json:"ground,omitempty,omitzero"` // as that of [EraseSession]
	DryRun bool   `json:"dry_run,omitzero"`
}

// RedactedMemories says what was taken out of the memories of an agent. What compactions learned is of their sessions.
type RedactedMemories struct {
	Agent     string     `json:"agent"`
	Done      bool       `json:"done"`
	DryRun    bool       `json:"dry_run,omitzero"`
	Memories  []turns.ID `json:"memories"`           // that had the text
	Documents uint64     `json:"documents,omitzero"` // versions of the agent's document that had it
}
