package policies

import (
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
)

// Policies stores policies and lists them. Safe for concurrent use.
type Policies struct {
	// MaxPolicies bounds the policies on the chain of one tenant. The policies of this
	// build are stored beyond it, so that a session can always have one.
	MaxPolicies uint64
	// MaxPerAgent bounds the policies that one agent stores on that chain, so that no
	// agent takes the room of the others. The operator has no bound of its own.
	MaxPerAgent uint64
	// MaxVersions bounds the versions under one name.
	MaxVersions uint64

	content *content.Store
	page    *page.Limits
	reader  *reader.Reader
	writer  *writer.Writer

	turn chan struct{} // holds one token; its owner appends to a tenant's chain
}

const (
	// maxPolicies takes about 200 MB, as content of usual size has 2 kB.
	maxPolicies = 100_000
	// maxPerAgent lets 20 agents fill the tenant's room.
	maxPerAgent = 5_000
	// maxVersions keeps a name from taking all of an agent's policies.
	maxVersions = 1000
)

// New returns the policies that w stores.
func New(cs *content.Store, limits *page.Limits, r *reader.Reader, w *writer.Writer) *Policies {
	ps := &Policies{MaxPolicies: maxPolicies, MaxPerAgent: maxPerAgent, MaxVersions: maxVersions, content: cs, page: limits, reader: r, writer: w, turn: make(chan struct{}, 1)}
	ps.turn <- struct{}{}
	return ps
}
