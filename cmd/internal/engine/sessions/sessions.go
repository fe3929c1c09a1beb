package sessions

import (
	"nexus/cmd/internal/engine/compactions"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/policies"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
)

// Sessions creates, changes and ends sessions, and appends their turns. Safe for
// concurrent use.
type Sessions struct {
	// MayOpenMain reports whether an agent may open sessions of kind main. nil: none may.
	MayOpenMain func(tenant, agent string) bool

	content     *content.Store
	page        *page.Limits
	paths       *paths.Loader
	reader      *reader.Reader
	writer      *writer.Writer
	policies    *policies.Policies
	compactions *compactions.Compactions
}

// New returns the sessions that w writes. It sets w.OnClosed to finish a reset that
// a crash cut short ([Sessions.FinishReset]),
// and w.DueReset to reset sessions by time before they are changed.
func New(cs *content.Store, limits *page.Limits, pl *paths.Loader, r *reader.Reader, w *writer.Writer, ps *policies.Policies, cm *compactions.Compactions) *Sessions {
	ss := &Sessions{content: cs, page: limits, paths: pl, reader: r, writer: w, policies: ps, compactions: cm}
	w.OnClosed, w.DueReset = ss.FinishReset, ss.dueReset
	return ss
}
