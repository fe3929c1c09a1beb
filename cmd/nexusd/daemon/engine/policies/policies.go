package policies

import (
	"nexus/cmd/nexusd/daemon/engine/content"
	"nexus/cmd/nexusd/daemon/engine/page"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/cmd/nexusd/daemon/engine/writer"
)

// Policies stores policies and lists them. Safe for concurrent use.
type Policies struct {
	content *content.Store
	page    *page.Limits
	reader  *reader.Reader
	writer  *writer.Writer

	turn chan struct{} // holds one token; its owner appends to a tenant's chain
}

// New returns the policies that w stores.
func New(cs *content.Store, limits *page.Limits, r *reader.Reader, w *writer.Writer) *Policies {
	ps := &Policies{content: cs, page: limits, reader: r, writer: w, turn: make(chan struct{}, 1)}
	ps.turn <- struct{}{}
	return ps
}
