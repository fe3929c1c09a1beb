package view

import (
	"nexus/turns"
	"nexus/turns/tokens"
)

// Growth is the calls since the last compaction.
type Growth struct {
	Calls uint64
	Read  uint64 // tokens of their contexts, all together
	First uint64 // tokens of the first one's
}

// Below adds up how many tokens fewer than total each call read.
func (g Growth) Below(total uint64) uint64 { return tokens.Sub(g.Calls*total, g.Read) }

// call is g with one more, whose context had so many tokens.
func (g Growth) call(tokens uint64) Growth {
	if g.Calls++; g.Calls == 1 {
		g.First = tokens
	}
	g.Read += tokens
	return g
}

// MeasureGrowth returns the growth of p: from its sums where it has them.
func (p Path) MeasureGrowth() (g Growth) {
	if p.Sums != nil {
		return p.Sums.growth
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

// Sums is what the halves of a path come to, for triggers that would look at
// them: it can be kept, and added to, without them.
type Sums struct {
	tokens      uint64 // overhead left out
	growth      Growth
	calibration tokens.Calibration
	calibrates  bool
}

// Summed is the sums of p, whose halves are loaded.
func (p Path) Summed() Sums {
	return Sums{tokens: p.Tokens(), growth: p.MeasureGrowth(), calibration: p.Calibrate(), calibrates: p.View.When == ""}
}

// Sent is s with messages of so many tokens more.
func (s Sums) Sent(tokens uint64) Sums {
	s.tokens += tokens
	return s
}

// Answered is s with a response of so many tokens more, to a call whose input the
// provider counted as reported; 0: it did not say.
func (s Sums) Answered(overhead, tokens, reported uint64) Sums {
	at := overhead + s.tokens
	s.growth = s.growth.call(at)
	if s.calibrates {
		s.calibration = s.calibration.Observe(at, reported)
	}
	s.tokens += tokens
	return s
}
