package views

import (
	"sync"

	"nexus/cmd/internal/explorer/costs"
	"nexus/cmd/internal/explorer/visit"
)

// Views has the pages that show, and what they keep between two of them. Safe for concurrent use.
type Views struct {
	costs    *costs.Costs
	vanished bool     // there is a page of transcripts that vanished
	large    sync.Map // tenant and agent: there are more than [orderedMost] sessions
}

// New returns pages whose sessions have the costs of c. vanished says that there is a page of transcripts that
// vanished.
func New(c *costs.Costs, vanished bool) *Views { return &Views{costs: c, vanished: vanished} }

// visitor is a visit of one of these pages.
type visitor struct {
	*visit.Visit
	*Views
}

// Pages is what the room serves, by pattern.
func (x *Views) Pages() visit.Pages {
	to := func(show func(*visitor) error) func(*visit.Visit) error {
		return func(v *visit.Visit) error { return show(&visitor{v, x}) }
	}
	return visit.Pages{
		"GET /ui/{$}":                        to((*visitor).sessions),
		"GET /ui/s/{session}":                to((*visitor).session),
		"GET /ui/s/{session}/t/{turn}":       to((*visitor).turn),
		"GET /ui/s/{session}/t/{turn}/b/{n}": to((*visitor).block),
		"GET /ui/s/{session}/t/{turn}/i/{n}": to((*visitor).picture),
		"GET /ui/s/{session}/x/{turn}":       to((*visitor).context),
		"GET /ui/s/{session}/c/{turn}":       to((*visitor).compaction),
		"GET /ui/search":                     to((*visitor).search),
		"GET /ui/memory":                     to((*visitor).memory),
		"GET /ui/events":                     to((*visitor).events),
	}
}
