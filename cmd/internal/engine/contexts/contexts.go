package contexts

import (
	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/compactions"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/covered"
	"nexus/cmd/internal/engine/memories"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
)

// Contexts gives the exact messages of model calls, those to come and those of
// the past. Safe for concurrent use.
type Contexts struct {
	content     *content.Store
	page        *page.Limits
	paths       *paths.Loader
	reader      *reader.Reader
	memories    *memories.Memories
	covered     *covered.Covered
	compactions *compactions.Compactions
	pages       *cache.Cache[pageKey, api.Context] // whole contexts that are being paged
	rendered    *cache.Cache[renderedKey, *rendered]
	answers     *cache.Cache[answersKey, answers]
}

// New returns the contexts of the sessions that r reads.
func New(cs *content.Store, limits *page.Limits, pl *paths.Loader, r *reader.Reader, ms *memories.Memories, cv *covered.Covered, cm *compactions.Compactions, budget *cache.Budget) *Contexts {
	return &Contexts{content: cs, page: limits, paths: pl, reader: r, memories: ms, covered: cv, compactions: cm, pages: cache.New[pageKey, api.Context](budget, "contexts"),
		rendered: cache.New[renderedKey, *rendered](budget, "messages"), answers: cache.New[answersKey, answers](budget, "answers")}
}
