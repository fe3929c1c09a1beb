package view

import (
	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Totals are the sums over a path's halves that sizes and triggers are made of. A path that goes
// on where another ended adds its new halves only. Requests share them; nobody changes them.
type Totals struct {
	halves   []summary.HalfTurn // that were added up
	inForce  *InForce
	overhead uint64
	changed  uint64
	prunes   bool
	counter  string

	base        uint64 // tokens before the halves: of the overhead and the replacement
	shown       uint64 // tokens of the halves, elisions applied
	growth      Growth
	calibration tokens.Calibration
	messages    uint64
	turns       uint64 // since the compaction in force
	reported    uint64 // see [Path.ReportedTokens]
}

// WithTotals returns p with its halves added up. It goes on from before, where that is of p's
// first halves; before may be nil.
//
// Invariant: each function of p returns what it would without. The totals count only as long as
// the path has the same halves in memory.
func (p Path) WithTotals(before *Totals) Path {
	t, from := &Totals{}, 0
	if before.areOfFirst(&p) {
		*t, from = *before, len(before.halves)
	} else {
		*t = Totals{inForce: p.InForce, overhead: p.Overhead, changed: p.Changed, prunes: p.View.When != "", counter: p.CountedBy().Name(), base: p.Overhead + p.Replaced()}
		if p.InForce != nil {
			t.calibration = p.InForce.ReadMeta().Calibration
		}
	}
	t.halves = p.Halves
	for i := from; i < len(p.Halves); i++ {
		t.add(i)
	}
	p.Totals = t
	return p
}

// add adds half i, which is behind those that were added.
func (t *Totals) add(i int) {
	h := &t.halves[i]
	compacted := uint64(0) // depth of the compaction in force
	if t.inForce != nil {
		compacted = t.inForce.Node.Depth
	}
	isCall, at, tokens := h.Half == turns.ResponseHalf, t.base+t.shown, h.ShownTokens()
	if isCall && (t.inForce == nil || h.Depth > compacted) {
		t.growth = t.growth.call(at)
	}
	if isCall && !t.prunes && h.Depth > max(t.changed, compacted) {
		t.calibration = t.calibration.Observe(at, h.Reported)
	}
	switch {
	case h.Depth <= t.changed || t.inForce != nil && h.Depth < compacted:
		t.reported = 0
	case isCall && h.Reported > 0:
		t.reported = h.Reported + tokens
	case t.reported > 0:
		t.reported += tokens
	}
	if (t.inForce == nil || h.Depth > compacted) && (i == 0 || h.Ref != t.halves[i-1].Ref) {
		t.turns++
	}
	t.messages += uint64(len(h.Messages))
	t.shown += tokens
}

// areOfFirst reports whether t is of the first halves of p, and of all else of p that it depends on.
func (t *Totals) areOfFirst(p *Path) bool {
	return t != nil && len(t.halves) > 0 && len(t.halves) <= len(p.Halves) && &t.halves[0] == &p.Halves[0] &&
		t.inForce == p.InForce && t.overhead == p.Overhead && t.changed == p.Changed && t.prunes == (p.View.When != "") && t.counter == p.CountedBy().Name()
}

// totals returns the totals of p, nil if they are not known.
func (p *Path) totals() *Totals {
	if t := p.Totals; t.areOfFirst(p) && len(t.halves) == len(p.Halves) {
		return t
	}
	return nil
}
