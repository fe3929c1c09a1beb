package api

import "nexus/turns"

// SessionSettings are the settings that create and set share. A nil field is
// left as it is; an empty value takes a setting away.
type SessionSettings struct {
	Label  *string       `json:"label,omitzero"`
	Policy *Policy       `json:"policy,omitzero"`
	Model  *string       `json:"model,omitzero"`
	System *System       `json:"system,omitzero"`
	Tools  *[]turns.Raw  `json:"tools,omitzero"`
	Limits *turns.Limits `json:"limits,omitzero"`
	User   *string       `json:"user,omitzero"`
	Meta   turns.Raw     `json:"meta,omitzero"`
	Reset  turns.Raw     `json:"reset,omitzero"`
}

// CreateSession is session.create.
type CreateSession struct {
	ID        turns.ID          `json:"id,omitzero"`
	Kind      turns.SessionKind `json:"kind,omitempty,omitzero"`
	SpawnedBy *SpawnedBy        `json:"spawned_by,omitempty,omitzero"`
	SessionSettings
}

// SpawnedBy names the session, and its turn if there is one, that a sub-session serves.
type SpawnedBy struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn,omitzero"`
}

// SetSession is session.set. SpawnedBy may be set once, on a session that was opened
// without one.
type SetSession struct {
	ID turns.ID `json:"id,omitzero"`
	// Kind never changes: only the one that the session has is taken.
	Kind      turns.SessionKind `json:"kind,omitempty,omitzero"`
	SpawnedBy *SpawnedBy        `json:"spawned_by,omitempty,omitzero"`
	SessionSettings
}

// ForkedFrom names a fork point.
type ForkedFrom struct {
	Session turns.ID   `json:"session"`
	Turn    turns.ID   `json:"turn"`
	Hash    turns.Hash `json:"hash"`
	Mode    string     `json:"mode"`
}

// Uncounted is an estimate of the calls of a session's own turns of which nobody told the usage. It
// has no system part and no tools, so it is less than what a provider would count.
type Uncounted struct {
	Calls        uint64 `json:"calls"`
	InputTokens  uint64 `json:"input_tokens"`
	OutputTokens uint64 `json:"output_tokens"`
}

// Session is a session as every session call returns it.
type Session struct {
	ID          turns.ID          `json:"id"`
	Label       string            `json:"label,omitempty,omitzero"`
	Agent       string            `json:"agent"`
	Kind        turns.SessionKind `json:"kind"`
	State       string            `json:"state"`
	Head        *turns.ID         `json:"head" jsonschema:"nullable"`        // null: no turn yet
	HeadSession turns.ID          `json:"head_session,omitzero"`             // where the head is inherited from, if it is
	Depth       uint64            `json:"depth"`                             // turns on the path of the head
	Turns       uint64            `json:"turns"`                             // normal turns of the session's own
	Compactions uint64            `json:"compactions"`                       // of the session's own
	Tokens      uint64            `json:"tokens"`                            // of the context, without overhead
	Overhead    uint64            `json:"overhead"`                          // of system and tools
	Budget      uint64            `json:"budget"`                            // what tokens and overhead may take together
	Pressure    float64           `json:"pressure"`                          // (tokens + overhead) / budget
	Reported    uint64            `json:"reported,omitempty,omitzero"`       // tokens and overhead by the provider's count of the last call, with an estimate of what came since; 0: estimated
	WindowGuess bool              `json:"window_guessed,omitempty,omitzero"` // neither the session nor a known model states the window
	ForkedFrom  *ForkedFrom       `json:"forked_from,omitempty,omitzero"`
	SpawnedBy   *SpawnedBy        `json:"spawned_by,omitempty,omitzero"`
	Policy      PolicyInForce     `json:"policy"`
	Model       string            `json:"model,omitempty,omitzero"`
	Limits      turns.Limits      `json:"limits,omitzero"`
	User        string            `json:"user,omitempty,omitzero"`
	Meta        turns.Raw         `json:"meta,omitzero"`
	Successor   turns.ID          `json:"successor,omitzero"`
	Reset       turns.Raw         `json:"reset,omitzero"`               // the session's own rule of resets
	ResetDue    *Time             `json:"reset_due,omitempty,omitzero"` // when it is reset by time, as of now
	Ended       *Ended            `json:"ended,omitempty,omitzero"`     // of a session that was reset or closed
	Usage       turns.Usage       `json:"usage_total"`
	Uncounted   Uncounted         `json:"uncounted,omitzero"` // estimate of the calls without usage; zero: each turn told its usage
	Created     Time              `json:"created"`
	Updated     Time              `json:"updated"`
	Hash        turns.Hash        `json:"hash"` // of the chain's last event
	Position    string            `json:"position"`
	// Title is what session.describe gave; else, with about only, meta.title or the first words of
	// a user.
	Title   string   `json:"title,omitempty,omitzero"`
	Tags    []string `json:"tags,omitempty,omitzero"`
	Project string   `json:"project,omitempty,omitzero"`
	Hidden  bool     `json:"hidden,omitempty,omitzero"` // lists leave it out
	// HiddenCause is what whoever hid it gave as the reason.
	HiddenCause string `json:"hidden_cause,omitempty,omitzero"`
	Notes       uint64 `json:"notes,omitempty,omitzero"` // events that noted something on a turn of it
	HeadTime    *Time  `json:"head_time,omitempty"`      // with about only: when the newest turn on the path of the head was said
	// HeadTimeBound is "not_after" or "not_before" where the source of that turn does not
	// state the time, and HeadTime is a bound of it.
	HeadTimeBound turns.TimeBound `json:"head_time_bound,omitempty,omitzero"`
	// SupersededBy is the session that an import made in place of this one: it reads the
	// same transcript better. Lists leave this one out.
	SupersededBy turns.ID `json:"superseded_by,omitzero"`
	Mode         string   `json:"mode,omitempty,omitzero"`  // fork.create only
	Error        Code     `json:"error,omitempty,omitzero"` // lists only: why the session can't be read; then nothing that its content says is here

	MissingKey turns.ID `json:"missing_key,omitzero"` // lists only, with error: the content key that is not in the key store
}

// Ended says how a session ended.
type Ended struct {
	Cause string `json:"cause,omitempty,omitzero"` // daily, idle, or what the request says
	Time  Time   `json:"time"`                     // when it was stored
	Due   *Time  `json:"due,omitempty,omitzero"`   // when a reset by time was due
}

// About asks for a session's title and the time of its head too.
type About struct {
	About bool `json:"about,omitzero"`
}

// GetSession is session.get.
type GetSession struct {
	About
	Read
}

// MaxKin is how many sessions one [ListSessions] names whose sub-agents or forks it lists.
const MaxKin = 1000

// ListSessions is session.list.
type ListSessions struct {
	About
	Page
	Order string `json:"order,omitempty,omitzero"` // id (default), updated: the one that changed last first
	// Superseded lists the sessions too that another one supersedes.
	Superseded bool `json:"superseded,omitzero"`
	// Hidden lists the sessions too that were hidden.
	Hidden bool `json:"hidden,omitzero"`
	// Tag lists those with a tag.
	Tag string `json:"tag,omitempty,omitzero"`
	// Project lists those of a project: see [turns.Project.Has].
	Project string `json:"project,omitempty,omitzero"`
	// SpawnedBy lists those that serve one of at most [MaxKin] sessions, ForkedFrom the forks of one of
	// them: one of both, in the order of ids, of these sessions first.
	SpawnedBy  []turns.ID `json:"spawned_by,omitempty,omitzero"`
	ForkedFrom []turns.ID `json:"forked_from,omitempty,omitzero"`
	Read
}

// SessionList is session.list's reply.
type SessionList struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next,omitempty,omitzero"`
}

// Resolve is session.resolve.
type Resolve struct {
	Label string `json:"label"`
}

// MoveSession is session.move. To is a turn of the session's own or inherited
// path, or null for the start.
type MoveSession struct {
	ID     turns.ID  `json:"id,omitzero"`
	To     *turns.ID `json:"to" jsonschema:"nullable"`
	IfHead turns.ID  `json:"if_head,omitzero"`
	Note   string    `json:"note,omitempty,omitzero"`
}

// CloseSession is session.close.
type CloseSession struct {
	ID    turns.ID `json:"id,omitzero"`
	Cause string   `json:"cause,omitempty,omitzero"`
}

// HideSession is session.hide and session.unhide.
type HideSession struct {
	ID    turns.ID `json:"id,omitzero"`
	Cause string   `json:"cause,omitempty,omitzero"`
}

// DescribeSession is session.describe: what a person says of a session. A nil field is left as it
// is; an empty value takes it away. Tags are all tags; Tag adds some and Untag takes some away.
type DescribeSession struct {
	ID      turns.ID  `json:"id,omitzero"`
	Title   *string   `json:"title,omitzero"`
	Tags    *[]string `json:"tags,omitzero"`
	Tag     []string  `json:"tag,omitempty,omitzero"`
	Untag   []string  `json:"untag,omitempty,omitzero"`
	Project *string   `json:"project,omitzero"`
}

// ResetSession is session.reset.
type ResetSession struct {
	ID    turns.ID `json:"id,omitzero"`
	Cause string   `json:"cause,omitempty,omitzero"`
}
