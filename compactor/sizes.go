package compactor

import (
	"nexus/turns"
	"nexus/turns/tokens"
)

// sizes are a policy's numbers for one window, in tokens of its counter. All
// but budget and trigger leave overhead out.
//
// Invariant: keep + summary <= target <= room <= budget.
type sizes struct {
	window  uint64
	budget  uint64 // input tokens, overhead included
	room    uint64 // budget − overhead: what messages may fill
	trigger uint64 // a context of more tokens is due, overhead included
	idle    uint64 // so is an idle one of more than these
	pays    uint64 // cost counts in a context of more, overhead included
	flush   uint64 // a memory flush is due in a context of more, overhead included
	target  uint64 // messages after a compaction
	summary uint64 // the replacement, framing included
	keep    uint64 // newest tokens kept
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
	return min(w, maxTokens)
}

// Target is the tokens of messages that a compaction by p leaves at most,
// where some legal cut reaches it. Overhead is what stands before them.
func (p Policy) Target(limits turns.Limits, overhead uint64) uint64 {
	return p.sizesFor(bounds{limits: limits, overhead: overhead}).target
}

// bounds is what the sizes of a policy are scaled to.
type bounds struct {
	limits   turns.Limits
	overhead uint64  // tokens of system and tools
	ratio    float64 // what the provider counts for one token of the policy's counter, in [1, 2]; 0: 1
	budget   uint64  // that the caller set, in tokens of the counter; 0: the policy's
	overflow bool    // a provider refused a context which the counter took for small enough
}

// sizesFor scales p to b. An overflow without a budget of the caller's halves
// what stays.
func (p Policy) sizesFor(b bounds) sizes {
	s := sizes{window: p.window(b.limits), budget: p.Budget(b.limits)}
	if b.budget > 0 { // in the counter's tokens as it is
		s.budget = min(b.budget, maxTokens)
	} else {
		s.budget = estimatedBudget(s.budget, b.overhead, b.ratio)
		s.window = max(s.budget, estimated(s.window, b.ratio))
	}
	aggressive, overhead := b.overflow && b.budget == 0, b.overhead
	s.room = tokens.Sub(s.budget, overhead)
	s.trigger = s.budget
	if p.ReserveTokens > 0 {
		s.trigger = min(s.trigger, s.window-min(p.ReserveTokens, s.window/4))
	}
	of := func(ratio float64) uint64 { // of a context, overhead included
		if p.WholeBudget {
			return tokens.Share(s.budget, ratio)
		}
		return overhead + tokens.Share(s.room, ratio)
	}
	if p.TriggerRatio > 0 {
		s.trigger = min(s.trigger, of(p.TriggerRatio))
	}
	if p.Mode == Background {
		// There has to be room for the calls that are answered meanwhile.
		s.trigger = min(s.trigger, overhead+tokens.Share(s.room, backgroundRatio))
	}
	s.idle, s.pays = of(p.IdleRatio), of(p.Cost.FromRatio)
	s.target = tokens.Share(s.room, p.TargetRatio)
	if p.WholeBudget {
		// Overhead may be most of the budget; then a tenth of what it leaves.
		s.target = min(s.room, max(tokens.Sub(tokens.Share(s.budget, p.TargetRatio), overhead), s.room/10))
	}
	if p.TargetTokens > 0 {
		s.target = min(s.target, p.TargetTokens)
	}
	if aggressive {
		s.target /= 2
	}
	// What is left must not be due again at once, whatever overhead takes.
	if s.trigger <= overhead { // a reserve, or a share of the whole, that overhead fills
		s.trigger = overhead + tokens.Share(s.room, 0.75)
	}
	least := s.room / 20
	if p.Measure == Calibrated {
		least = s.room / 2 // a ratio may be wrong, and overhead much of what it leaves
	}
	s.trigger = max(s.trigger, overhead+max(least, 1))
	if least := tokens.Sub(s.trigger, overhead); s.target >= least {
		s.target = least - least/5
	}
	s.flush = tokens.Sub(s.trigger, min(p.Flush.Threshold, s.window/16))
	s.summary = tokens.Share(s.room, p.SummaryMaxRatio)
	if p.SummaryMaxTokens > 0 {
		s.summary = min(s.summary, p.SummaryMaxTokens)
	}
	s.summary = min(s.summary, s.target/2)
	s.keep = min(p.KeepTokens, s.target-s.summary)
	if aggressive {
		s.keep /= 2
	}
	return s
}

// backgroundRatio is the share of what overhead leaves of the budget over which a
// context is due in the background, whatever the policy's own trigger.
const backgroundRatio = 0.9

// estimated is what a counter counts of what a provider counts as n tokens, at
// ratio of its tokens for one of the counter's.
func estimated(n uint64, ratio float64) uint64 { return uint64(float64(n) / max(1, ratio)) }

// estimatedBudget is what a policy's counter may count in a budget. Half of what
// overhead leaves stays, whatever the ratio: the ratio may be wrong, and a
// session that no call can be made of would never find out.
func estimatedBudget(budget, overhead uint64, ratio float64) uint64 {
	if budget <= overhead {
		return budget
	}
	return max(estimated(budget, ratio), overhead+(budget-overhead+1)/2)
}
