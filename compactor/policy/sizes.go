package policy

import (
	"nexus/turns"
	"nexus/turns/tokens"
)

// Sizes are a policy's numbers for one window, in tokens of its counter. All
// but budget and trigger leave overhead out.
//
// Invariant: keep + summary <= target <= room <= budget.
type Sizes struct {
	Window  uint64
	Budget  uint64 // input tokens, overhead included
	Room    uint64 // budget − overhead: what messages may fill
	Trigger uint64 // a context of more tokens is due, overhead included
	Idle    uint64 // so is an idle one of more than these
	Pays    uint64 // cost counts in a context of more, overhead included
	Flush   uint64 // a memory flush is due in a context of more, overhead included
	Target  uint64 // messages after a compaction
	Summary uint64 // the replacement, framing included
	Keep    uint64 // newest tokens kept
}

// Budget is how many input tokens, overhead included, a call may have: window
// − max output − safety margin, and never less than a quarter of the window,
// so that limits that contradict each other still leave something to work
// with. Zero limits are the policy's; see [Policy.MaxOutputTokens].
func (p Policy) Budget(limits turns.Limits) uint64 {
	w := p.window(limits)
	output, margin := limits.MaxOutputTokens, limits.SafetyMargin
	if output == 0 {
		output = min(p.MaxOutputTokens, w/4)
	}
	if margin == 0 {
		margin = min(p.SafetyMargin, w/50)
	}
	return max(tokens.Sub(tokens.Sub(w, output), margin), w/4, 1)
}

func (p Policy) window(limits turns.Limits) uint64 {
	w := limits.ContextWindow
	if w == 0 {
		w = p.ContextWindow
	}
	return min(w, MaxTokens)
}

// Target is the tokens of messages that a compaction by p leaves at most,
// where some legal cut reaches it. Overhead is what stands before them.
func (p Policy) Target(limits turns.Limits, overhead uint64) uint64 {
	return p.Scale(Bounds{Limits: limits, Overhead: overhead}).Target
}

// Bounds is what the sizes of a policy are scaled to.
type Bounds struct {
	Limits   turns.Limits
	Overhead uint64  // tokens of system and tools
	Ratio    float64 // what the provider counts for one token of the policy's counter, in [1, 2]; 0: 1
	Budget   uint64  // that the caller set, in tokens of the counter; 0: the policy's
	Overflow bool    // a provider refused a context which the counter took for small enough
}

// Scale returns the sizes of p for b. An overflow without a budget of the caller's halves
// what stays.
func (p Policy) Scale(b Bounds) Sizes {
	s := Sizes{Window: p.window(b.Limits), Budget: p.Budget(b.Limits)}
	if b.Budget > 0 { // in the counter's tokens as it is
		s.Budget = min(b.Budget, MaxTokens)
	} else {
		s.Budget = EstimatedBudget(s.Budget, b.Overhead, b.Ratio)
		s.Window = max(s.Budget, estimated(s.Window, b.Ratio))
	}
	aggressive, overhead := b.Overflow && b.Budget == 0, b.Overhead
	s.Room = tokens.Sub(s.Budget, overhead)
	s.Trigger = s.Budget
	if p.ReserveTokens > 0 {
		s.Trigger = min(s.Trigger, s.Window-min(p.ReserveTokens, s.Window/4))
	}
	of := func(ratio float64) uint64 { // of a context, overhead included
		if p.WholeBudget {
			return tokens.Share(s.Budget, ratio)
		}
		return overhead + tokens.Share(s.Room, ratio)
	}
	if p.TriggerRatio > 0 {
		s.Trigger = min(s.Trigger, of(p.TriggerRatio))
	}
	if p.Mode == Background {
		// There has to be room for the calls that are answered meanwhile.
		s.Trigger = min(s.Trigger, overhead+tokens.Share(s.Room, backgroundRatio))
	}
	s.Idle, s.Pays = of(p.IdleRatio), of(p.Cost.FromRatio)
	s.Target = tokens.Share(s.Room, p.TargetRatio)
	if p.WholeBudget {
		// Overhead may be most of the budget; then a tenth of what it leaves.
		s.Target = min(s.Room, max(tokens.Sub(tokens.Share(s.Budget, p.TargetRatio), overhead), s.Room/10))
	}
	if p.TargetTokens > 0 {
		s.Target = min(s.Target, p.TargetTokens)
	}
	if aggressive {
		s.Target /= 2
	}
	// What is left must not be due again at once, whatever overhead takes.
	if s.Trigger <= overhead { // a reserve, or a share of the whole, that overhead fills
		s.Trigger = overhead + tokens.Share(s.Room, 0.75)
	}
	least := s.Room / 20
	if p.Measure == Calibrated {
		least = s.Room / 2 // a ratio may be wrong, and overhead much of what it leaves
	}
	s.Trigger = max(s.Trigger, overhead+max(least, 1))
	if least := tokens.Sub(s.Trigger, overhead); s.Target >= least {
		s.Target = least - least/5
	}
	s.Flush = tokens.Sub(s.Trigger, min(p.Flush.Threshold, s.Window/16))
	s.Summary = tokens.Share(s.Room, p.SummaryMaxRatio)
	if p.SummaryMaxTokens > 0 {
		s.Summary = min(s.Summary, p.SummaryMaxTokens)
	}
	s.Summary = min(s.Summary, s.Target/2)
	s.Keep = min(p.KeepTokens, s.Target-s.Summary)
	if aggressive {
		s.Keep /= 2
	}
	return s
}

// backgroundRatio is the share of what overhead leaves of the budget over which a
// context is due in the background, whatever the policy's own trigger.
const backgroundRatio = 0.9

// estimated is what a counter counts of what a provider counts as n tokens, at
// ratio of its tokens for one of the counter's.
func estimated(n uint64, ratio float64) uint64 { return uint64(float64(n) / max(1, ratio)) }

// EstimatedBudget is what a policy's counter may count in a budget. Half of what
// overhead leaves stays, whatever the ratio: the ratio may be wrong, and a
// session that no call can be made of would never find out.
func EstimatedBudget(budget, overhead uint64, ratio float64) uint64 {
	if budget <= overhead {
		return budget
	}
	return max(estimated(budget, ratio), overhead+(budget-overhead+1)/2)
}
