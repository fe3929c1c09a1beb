package history

import (
	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
)

// History lists what is stored: sessions, turns, compactions, trees. Safe for
// concurrent use.
type History struct {
	// PageSessions is how many sessions a page of a list looks at. Then it ends, with those that the request asks for.
	PageSessions int

	content *content.Store
	page    *page.Limits
	reader  *reader.Reader
	abouts  *cache.Cache[aboutKey, about]
}

// pageSessions take some 50 ms where the request leaves them all out.
const pageSessions = 2000

// New returns the history of what r reads. What lists show is kept within budget.
func New(cs *content.Store, limits *page.Limits, r *reader.Reader, budget *cache.Budget) *History {
	return &History{PageSessions: pageSessions, content: cs, page: limits, reader: r, abouts: cache.New[aboutKey, about](budget, "titles")}
}
