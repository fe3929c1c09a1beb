package view

import (
	"nexus/turns"
	"nexus/turns/tokens"
)

// Growth sums up the calls since the last compaction.
type Growth struct {
	Calls uint64
	Read  uint64 // tokens of the contexts of all these calls
	First uint64 // tokens of the first call's context
}

// Below returns how many tokens fewer than total the calls read, summed over all
// calls.
func (g Growth) Below(total uint64) uint64 { return tokens.Sub(g.Calls*total, g.Read) }

// call returns g plus a call whose context has so many tokens.
func (g Growth) call(tokens uint64) Growth {
	if g.Calls++; g.Calls == 1 {
		g.First = tokens
	}
	g.Read += tokens
	return g
}

// MeasureGrowth returns the growth of p. It uses p.Sums if they are set.
func (p Path) MeasureGrowth() (g Growth) {
	if p.Sums != nil {
		return p.Sums.growth
	}
	if t := p.totals(); t != nil {
		return t.growth
	}
	at := p.Overhead + p.Replaced()
	for i := range p.Halves {
		h := &p.Halves[i]
		if h.Half == turns.ResponseHalf && (p.InForce == nil || h.Depth > p.InForce.Node.Depth) {
			g = g.call(at)
		}
		at += h.ShownTokens()
	}
	return g
}

// Sums holds the totals of a path's halves that triggers need. A caller can keep it
// and add to it without loading the halves.
type Sums struct {
	tokens      uint64 // without overhead
	growth      Growth
	calibration tokens.Calibration
	calibrates  bool
}

// Summed returns the sums of p, whose halves must be loaded.
func (p Path) Summed() Sums {
	return Sums{tokens: p.Tokens(), growth: p.MeasureGrowth(), calibration: p.Calibrate(), calibrates: p.View.When == ""}
}

// AddMessages returns s plus messages of so many tokens.
func (s Sums) AddMessages(tokens uint64) Sums {
	s.tokens += tokens
	return s
}

// AddResponse returns s plus a response of so many tokens. reported is the provider's
// count of the call's input, 0 if it gave none.
func (s Sums) AddResponse(overhead, tokens, reported uint64) Sums {
	at := overhead + s.tokens
	s.growth = s.growth.call(at)
	if s.calibrates {
		s.calibration = s.calibration.Observe(at, reported)
	}
	s.tokens += tokens
	return s
}
