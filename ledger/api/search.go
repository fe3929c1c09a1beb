package api

import "nexus/turns"

// Search is search.query: by words, in turns, memories and external events.
type Search struct {
	Read
	Page         // after is the next of a page
	Text  string `json:"text"`                     // words, "phrases", beginnings*
	Agent string `json:"agent,omitempty,omitzero"` // operator only; none: all agents
	// Session: the turns of this session and of its path, and the memories that it sees.
	Session    turns.ID `json:"session,omitzero"`
	BranchOnly bool     `json:"branch_only,omitempty,omitzero"` // only the path of the session's head
	Kinds      []string `json:"kinds,omitempty,omitzero"`       // turn, memory, event, note (of a person, on a turn), session (what a person says of one); none: all, but with a session no events
	Model      string   `json:"model,omitempty,omitzero"`       // turns of this model
	Tool       string   `json:"tool,omitempty,omitzero"`        // turns that call this tool
	Role       string   `json:"role,omitempty,omitzero"`        // what a message of this role says
	Source     string   `json:"source,omitempty,omitzero"`      // turns of this program, as the importer names it
	Cwd        string   `json:"cwd,omitempty,omitzero"`         // turns in this folder, and in those below
	Branch     string   `json:"branch,omitempty,omitzero"`      // turns on this branch of git
	Project    string   `json:"project,omitempty,omitzero"`     // turns of sessions of this project
	Covered    bool     `json:"covered,omitempty,omitzero"`     // only what is compacted or elided
	AsOf       Position `json:"as_of,omitempty,omitzero"`       // a position: only what was stored then
	// ShowSecrets shows credentials of known shapes in snippets; else they are asterisks.
	ShowSecrets bool `json:"show_secrets,omitempty,omitzero"`
	// Hidden searches hidden sessions too.
	Hidden bool  `json:"hidden,omitempty,omitzero"`
	From   *Time `json:"from,omitempty,omitzero"` // [from, to)
	To     *Time `json:"to,omitempty,omitzero"`
}

// SearchHits is search.query's reply, best first.
type SearchHits struct {
	Hits   []SearchHit `json:"hits"`
	Next   string      `json:"next,omitempty,omitzero"`
	Any    bool        `json:"any,omitempty,omitzero"`    // nothing has all words; these hits have some
	Cut    bool        `json:"cut,omitempty,omitzero"`    // more was found than all pages show
	Behind uint64      `json:"behind,omitempty,omitzero"` // newest events of the log that were not searched
}

// SearchHit is something that a search found. Session, Turn and what follows them are of
// turns; a note has a session, a turn and its depth, and a session itself alone; Memory is of memories; Channel and Event are of external events.
type SearchHit struct {
	Kind  string  `json:"kind"` // turn, memory, event, note, session
	Agent string  `json:"agent"`
	Score float64 `json:"score"`
	Some  bool    `json:"some,omitempty,omitzero"` // it has some of the words, not all
	// State says what a model sees of it now: live, elided, compacted, archived,
	// other_branch.
	State string `json:"state"`
	Time  Time   `json:"time"`
	// TimeBound is how Time relates to the true one, where the source does not state that.
	TimeBound turns.TimeBound `json:"time_bound,omitempty,omitzero"`
	Position  string          `json:"position"`
	Snippet   string          `json:"snippet"` // hidden characters are U+FFFD, line ends are spaces
	Matches   [][2]int        `json:"matches"` // characters of the snippet, [from, to)

	Session turns.ID `json:"session,omitzero"`
	Turn    turns.ID `json:"turn,omitzero"`
	Depth   uint64   `json:"depth,omitempty,omitzero"`
	Type    string   `json:"type,omitempty,omitzero"` // normal, compaction
	Half    string   `json:"half,omitempty,omitzero"` // messages, response; none: a summary
	Role    string   `json:"role,omitempty,omitzero"`
	Tool    string   `json:"tool,omitempty,omitzero"`

	Memory turns.ID `json:"memory,omitzero"`

	Channel string   `json:"channel,omitempty,omitzero"`
	Event   turns.ID `json:"event,omitzero"`
}
