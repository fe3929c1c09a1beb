package history

import (
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
)

// History lists what is stored: sessions, turns, compactions, trees. Safe for
// concurrent use.
type History struct {
	content *content.Store
	page    *page.Limits
	reader  *reader.Reader
}

// New returns the history of what r reads.
func New(cs *content.Store, limits *page.Limits, r *reader.Reader) *History {
	return &History{content: cs, page: limits, reader: r}
}
