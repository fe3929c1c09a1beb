package explorer

import (
	"slices"

	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/ledger/api"
)

type healthPage struct {
	Facts    []Fact
	Who      string
	Pages    int
	Sound    bool
	MayProve bool
}

func (e *Explorer) health(v *visit.Visit) error {
	p := &healthPage{Facts: e.Health(), Pages: e.live.Count(), Sound: true, MayProve: v.MayProve() == nil}
	for _, f := range p.Facts {
		p.Sound = p.Sound && f.OK
	}
	if p.Who = "reads and changes"; v.Who.ReadOnly {
		p.Who = "reads only"
	}
	v.Render("health", "Health", "health", p)
	return nil
}

func (e *Explorer) keys(v *visit.Visit) error {
	v.Render("keys", "Keys", "", nil)
	return nil
}

type vanishedPage struct {
	Rows    []vanishedRow
	More    int
	Watched bool
}

type vanishedRow struct {
	Gone
	Since string
	URL   string
}

// KeptBytes and LostBytes are what humans read of the numbers.
func (r vanishedRow) KeptBytes() uint64 { return uint64(max(0, r.Kept)) }
func (r vanishedRow) LostBytes() uint64 { return uint64(max(0, r.Lost)) }

// vanishedShown is how many transcripts a page lists, the newest of them.
const vanishedShown = 500

// vanished lists the transcripts that are gone from the folders of their agents, and kept here.
func (e *Explorer) vanished(v *visit.Visit) error {
	if v.Who.Agent != api.Operator {
		return api.Errorf(api.Denied, nil, "the list names files of the ledger's machine: only the operator sees it")
	}
	p := &vanishedPage{Watched: e.Vanished != nil}
	if p.Watched {
		list, err := e.Vanished()
		if err != nil {
			return api.Errorf(api.Unavailable, nil, "the state of the watch can't be read")
		}
		for _, g := range slices.Backward(list) {
			if len(p.Rows) == vanishedShown {
				p.More = len(list) - vanishedShown
				break
			}
			r := vanishedRow{Gone: g}
			if r.File = pages.Line(g.File, 400); !g.Gone.IsZero() {
				r.Since = visit.Ago(v.Now(), g.Gone)
			}
			if !g.Session.IsZero() {
				r.URL = "/ui/s/" + g.Session.String()
			}
			p.Rows = append(p.Rows, r)
		}
	}
	v.Render("vanished", "Vanished transcripts", "sessions", p)
	return nil
}
