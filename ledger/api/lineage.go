package api

import "nexus/turns"

// CreateFork is fork.create.
type CreateFork struct {
	ID     turns.ID  `json:"id,omitzero"`
	Turn   turns.ID  `json:"turn"`
	Mode   string    `json:"mode,omitempty,omitzero"`
	Label  *string   `json:"label,omitempty,omitzero"`
	Policy *Policy   `json:"policy,omitempty,omitzero"`
	Meta   turns.Raw `json:"meta,omitzero"`
	// SpawnedBy is what the fork serves, as of session.create.
	SpawnedBy *SpawnedBy `json:"spawned_by,omitempty,omitzero"`
}

// GetPath is lineage.path.
type GetPath struct {
	At turns.ID `json:"at,omitzero"`
	Page
	Read
}

// PathTurn is one turn of a path.
type PathTurn struct {
	ID      turns.ID `json:"id"`
	Session turns.ID `json:"session"`
	Depth   uint64   `json:"depth"`
	Type    string   `json:"type"`
}

// Path is lineage.path's reply, root first.
type Path struct {
	Turns []PathTurn `json:"turns"`
	Next  string     `json:"next,omitempty,omitzero"`
}

// FindNames is lineage.find: what a person's name may mean, of all sessions that the caller
// sees.
type FindNames struct {
	Name    string   `json:"name"`
	Session turns.ID `json:"session,omitzero"`        // only turns of its own and those on its head's path
	Kind    string   `json:"kind,omitempty,omitzero"` // session or turn; none: both
	Limit   int      `json:"limit,omitempty,omitzero"`
	Read
}

// Names is lineage.find's reply: the sessions and turns whose id begins or ends with the
// name, and the sessions that it is the label of.
type Names struct {
	Sessions []NamedSession `json:"sessions"`
	Turns    []NamedTurn    `json:"turns"`
	Cut      bool           `json:"cut,omitempty,omitzero"` // there may be more
}

// NamedSession is a session that a name may mean.
type NamedSession struct {
	ID    turns.ID `json:"id"`
	Agent string   `json:"agent"`
}

// NamedTurn is a turn that a name may mean, with the session whose own it is.
type NamedTurn struct {
	PathTurn
	Agent  string `json:"agent"`
	OnPath bool   `json:"on_path,omitempty,omitzero"` // of the head of the session that was named
}

// GetBase is lineage.base: the last turn that two paths have in common. Each is
// the path of a session's head, or of a turn.
type GetBase struct {
	At    turns.ID `json:"at,omitzero"`
	Other Place    `json:"other"`
	Read
}

// Place is a session's head, or a turn on its path.
type Place struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn,omitzero"`
}

// Base is lineage.base's reply.
type Base struct {
	Base  *PathTurn `json:"base" jsonschema:"nullable"`  // null: the two are of different trees
	Head  *PathTurn `json:"here" jsonschema:"nullable"`  // where the first path ends; null: at no turn
	Other *PathTurn `json:"other" jsonschema:"nullable"` // where the other one does
}

// GetTree is lineage.tree.
type GetTree struct {
	Page
	Read
}

// TreeSession is one session of a tree of forks.
type TreeSession struct {
	ID         turns.ID    `json:"id"`
	Error      Code        `json:"error,omitempty,omitzero"` // why the session can't be read
	MissingKey turns.ID    `json:"missing_key,omitzero"`     // with error: the content key that is not in the key store
	Label      string      `json:"label,omitempty,omitzero"`
	State      string      `json:"state"`
	ForkedFrom *ForkedFrom `json:"forked_from,omitempty,omitzero"`
	ForkDepth  uint64      `json:"fork_depth"` // depth of the fork point; 0: the root session
	Head       *turns.ID   `json:"head" jsonschema:"nullable"`
	Depth      uint64      `json:"depth"`
	Turns      uint64      `json:"turns"`
	Branches   []Branch    `json:"branches"` // the first ones

	BranchCount uint64 `json:"branch_count"` // all of them
}

// Branch is one segment of a session.
type Branch struct {
	Segment     turns.ID   `json:"segment"`
	Parent      *turns.ID  `json:"parent" jsonschema:"nullable"`
	Tip         turns.ID   `json:"tip"`  // its last turn
	From        uint64     `json:"from"` // depths, inclusive
	To          uint64     `json:"to"`
	Compactions []PathTurn `json:"compactions,omitempty,omitzero"` // the first ones

	CompactionCount uint64 `json:"compaction_count"` // all of them
}

// Tree is lineage.tree's reply: parents before their forks.
type Tree struct {
	Root     turns.ID      `json:"root"`
	Sessions []TreeSession `json:"sessions"`
	Next     string        `json:"next,omitempty,omitzero"`
}
