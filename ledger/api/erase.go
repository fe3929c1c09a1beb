package api

import "nexus/turns"

// EraseSession is session.erase. Only the operator asks it.
type EraseSession struct {
	// ID is that of the call, as every change has one. This one has the same outcome each time, so it is not stored.
	ID turns.ID `json:"id,omitzero"`
	// Ground is a code, as "request-1234": letters, digits, dots, dashes and underscores, at most 64. It
	// stays, in the list of erasures.
	Ground string `json:"ground,omitempty,omitzero"`
	// WithEvents erases the external events too that turns of the session answered.
	WithEvents bool `json:"with_events,omitzero"`
	// DryRun says what would be done, and does nothing.
	DryRun bool `json:"dry_run,omitzero"`
}

// Receipt says what became of the content of a session in each store that has some.
type Receipt struct {
	Session turns.ID `json:"session"`
	// Done: nothing is pending. A call again says what became of what was.
	Done     bool          `json:"done"`
	DryRun   bool          `json:"dry_run,omitzero"`
	Erased   *Time         `json:"erased,omitempty,omitzero"`   // when the event was stored; nil: not yet
	Position string        `json:"position,omitempty,omitzero"` // of that event
	Stores   []ErasedStore `json:"stores"`
}

// ErasedStore is what became of the content in one store.
type ErasedStore struct {
	Store string     `json:"store"`
	State StoreState `json:"state"`
	// Count is how many things the store has, or had: events, files and so on. 0: none, or nobody can know.
	Count uint64 `json:"count"`
	Note  string `json:"note,omitempty,omitzero"` // what it is, and of one that is outside, what to do
}

// StoreState is what became of the content of a session in a store.
type StoreState string

// The states.
const (
	StoreDone    StoreState = "done"    // nothing of it can be read there
	StorePending StoreState = "pending" // it is being done, or would be
	StoreOutside StoreState = "outside" // no erasure of a session reaches it
)
