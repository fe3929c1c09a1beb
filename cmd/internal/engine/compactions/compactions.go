package compactions

import (
	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/memories"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/policies"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
)

// Compactions decides when a session is compacted, and compacts it: at once, in
// the background, or with a summary that the agent writes. Safe for concurrent use.
type Compactions struct {
	content  *content.Store
	page     *page.Limits
	paths    *paths.Loader
	reader   *reader.Reader
	writer   *writer.Writer
	policies *policies.Policies
	memories *memories.Memories

	background background
	plans      *cache.Cache[planKey, *pagedPlan] // plans whose pages are being read
}

// New returns the compactions of the sessions that w writes.
func New(cs *content.Store, limits *page.Limits, pl *paths.Loader, r *reader.Reader, w *writer.Writer, ps *policies.Policies, ms *memories.Memories, budget *cache.Budget) *Compactions {
	return &Compactions{content: cs, page: limits, paths: pl, reader: r, writer: w, policies: ps, memories: ms, plans: cache.New[planKey, *pagedPlan](budget, "plans")}
}
