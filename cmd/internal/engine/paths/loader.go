package paths

import (
	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/compactor"
	"nexus/turns"
)

// Loader loads the content of root paths, within bounds. Safe for concurrent use.
type Loader struct {
	Tiers []compactor.Tier // summarizers, in the order in which they are tried
	// ModelTiers returns the summarizers of a model that is none of Tiers'; nil: there are none.
	ModelTiers func(model string) []compactor.Tier
	// MaxContent bounds the content that a request loads of a path, in bytes.
	// 0 means 48 MiB.
	MaxContent int
	// Memory is what all requests together may have loaded.
	Memory *request.Memory

	content *content.Store
	reader  *reader.Reader
	page    *page.Limits
	sizes   *cache.Cache[turns.ID, Size] // by session
	runs    *cache.Cache[runKey, *run]
	tips    *cache.Cache[turns.ID, *tip] // by session
}

// New returns a loader of the paths that r finds.
func New(tiers []compactor.Tier, maxContent int, cs *content.Store, r *reader.Reader, limits *page.Limits, budget *cache.Budget) *Loader {
	return &Loader{Memory: request.NewMemory(), Tiers: tiers, MaxContent: maxContent, content: cs, reader: r, page: limits, sizes: cache.New[turns.ID, Size](budget, "measures"),
		runs: cache.New[runKey, *run](budget, "turns"), tips: cache.New[turns.ID, *tip](budget, "paths")}
}
