package explorer

import (
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/turns"
)

// Checkpoints is the newest checkpoint of the log, and what there is of it elsewhere.
type Checkpoints struct {
	Note    string // as it was signed; "": none is
	Origin  string
	Size    uint64 // events that it covers
	Key     string // public
	When    time.Time
	Last    uint64        // position of the newest record of the log
	Every   time.Duration // between two of them
	Stopped string        // why none is signed any more; "": they are
	Folders []CheckpointFolder

	Erasures       []Erasure
	ErasuresSigned bool // the list is, under Key
}

// CheckpointFolder is a folder elsewhere to which checkpoints are appended.
type CheckpointFolder struct {
	Dir    string
	Size   uint64 // that its newest checkpoint covers; 0: it has none since the start
	Failed string // why it lacks the newest one; "": it has it
}

// Erasure is a row of the list of erasures: a session, or one event of it that was redacted.
type Erasure struct {
	Session turns.ID
	Event   turns.ID // zero: the session
	Tenant  string
	Time    time.Time
	Ground  string
}

type checkpointsPage struct {
	*Checkpoints
	Ago    string
	Behind uint64 // events that the checkpoint does not cover
	Rows   []erasureRow
	Count  int // of erasures of the tenant
	Others int // of other tenants
	OK     bool
}

// After is how long after a checkpoint the next one is signed.
func (p *checkpointsPage) After() string {
	s := p.Every.String()
	if whole, ok := strings.CutSuffix(s, "m0s"); ok {
		s = whole + "m"
	}
	if whole, ok := strings.CutSuffix(s, "h0m"); ok {
		s = whole + "h"
	}
	return s
}

type erasureRow struct {
	Erasure
	When string
}

// erasuresShown is how many rows of the list of erasures the page has, the newest of them.
const erasuresShown = 100

// checkpoints shows the newest checkpoint, where it is published, and the list of erasures.
func (e *Explorer) checkpoints(v *visit.Visit) error {
	if err := v.MayProve(); err != nil {
		return err
	}
	p := &checkpointsPage{}
	if e.Checkpoints != nil {
		c, err := e.Checkpoints(v.R.Context())
		if err != nil {
			return err
		}
		p.Checkpoints = c
	}
	if c := p.Checkpoints; c != nil {
		p.Behind = c.Last - min(c.Last, c.Size)
		if !c.When.IsZero() {
			p.Ago = visit.Ago(v.Now(), c.When)
		}
		p.Stopped = pages.Line(c.Stopped, 1000)
		p.OK = c.Stopped == "" && !slices.ContainsFunc(c.Folders, func(f CheckpointFolder) bool { return f.Failed != "" })
		slices.SortStableFunc(c.Erasures, func(a, b Erasure) int { return b.Time.Compare(a.Time) })
		for _, e := range c.Erasures {
			if e.Tenant != v.Who.Tenant {
				p.Others++
				continue
			}
			if p.Count++; len(p.Rows) < erasuresShown {
				p.Rows = append(p.Rows, erasureRow{e, e.Time.Local().Format("2006-01-02 15:04")})
			}
		}
	}
	v.Render("checkpoints", "Checkpoints", "health", p)
	return nil
}
