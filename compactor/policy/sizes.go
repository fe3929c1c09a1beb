package policy

import (
	"nexus/turns"
	"nexus/turns/tokens"
)

// Sizes are a policy's numbers for one window, in tokens of its counter. All but
// Window, Budget, Trigger, Idle, Pays and Flush leave overhead out.
//
// Invariant: Keep + Replacement() <= Target <= Room <= Budget.
type Sizes struct {
	Window  uint64
	Budget  uint64 // input tokens, overhead included
	Room    uint64 // budget − overhead: what messages may fill
	Trigger uint64 // a larger context is due, overhead included
	Idle    uint64 // a larger idle context is due, overhead included
	Pays    uint64 // Cost applies to a larger context, overhead included
	Flush   uint64 // a memory flush is due in a larger context, overhead included
	Target  uint64 // upper bound of the messages after a compaction
	Summary uint64 // upper bound of the replacement, framing included, without quotes
	Quotes  uint64 // upper bound of what the replacement quotes of files
	Keep    uint64 // how many of the newest tokens are kept
}

// Budget returns how many input tokens a call may have, overhead included: window −
// max output − safety margin. It is at least a quarter of the window, so that
// contradictory limits still leave room. Zero limits become the policy's; see
// [Policy.MaxOutputTokens].
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

// Target returns the upper bound of the messages' tokens after a compaction by p. A
// compaction reaches it if a legal cut does. overhead counts system and tools.
func (p Policy) Target(limits turns.Limits, overhead uint64) uint64 {
	return p.Scale(Bounds{Limits: limits, Overhead: overhead}).Target
}

// Bounds is what a policy is scaled to.
type Bounds struct {
	Limits   turns.Limits
	Overhead uint64  // tokens of system and tools
	Ratio    float64 // the provider's tokens for one token of the policy's counter, in [1, 2]; 0: 1
	Budget   uint64  // the caller's, in tokens of the counter; 0: the policy's
	Overflow bool    // a provider refused a context that the counter found small enough
}

// Scale returns the sizes of p for b. After an overflow, if the caller set no
// budget, the target is halved.
func (p Policy) Scale(b Bounds) Sizes {
	s := Sizes{Window: p.window(b.Limits), Budget: p.Budget(b.Limits)}
	if b.Budget > 0 { // the caller's budget needs no conversion by the ratio
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
	of := func(ratio float64) uint64 { // size of a context at ratio, overhead included
		if p.WholeBudget {
			return tokens.Share(s.Budget, ratio)
		}
		return overhead + tokens.Share(s.Room, ratio)
	}
	if p.TriggerRatio > 0 {
		s.Trigger = min(s.Trigger, of(p.TriggerRatio))
	}
	if p.Mode == Background {
		// Calls that are answered while the summary is made need room.
		s.Trigger = min(s.Trigger, overhead+tokens.Share(s.Room, backgroundRatio))
	}
	s.Idle, s.Pays = of(p.IdleRatio), of(p.Cost.FromRatio)
	s.Target = tokens.Share(s.Room, p.TargetRatio)
	if p.WholeBudget {
		// Overhead may be most of the budget. Then the target is a tenth of the
		// rest.
		s.Target = min(s.Room, max(tokens.Sub(tokens.Share(s.Budget, p.TargetRatio), overhead), s.Room/10))
	}
	if p.TargetTokens > 0 {
		s.Target = min(s.Target, p.TargetTokens)
	}
	if aggressive {
		s.Target /= 2
	}
	// The context must not be due again right after a compaction, whatever overhead
	// takes.
	if s.Trigger <= overhead { // overhead alone exceeds the reserve, or the share of the whole budget
		s.Trigger = overhead + tokens.Share(s.Room, 0.75)
	}
	least := s.Room / 20
	if p.Measure == Calibrated {
		least = s.Room / 2 // the ratio may be wrong, and overhead may fill much of the budget
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
	s.Quotes = tokens.Share(s.Room, p.QuoteMaxRatio)
	if p.QuoteMaxTokens > 0 {
		s.Quotes = min(s.Quotes, p.QuoteMaxTokens)
	}
	s.Quotes = min(s.Quotes, (s.Target-s.Summary)/2)
	s.Keep = min(p.KeepTokens, s.Target-s.Summary-s.Quotes)
	if aggressive {
		s.Keep /= 2
	}
	return s
}

// backgroundRatio is the share of the room above which a context is due in
// background mode, whatever the policy's own trigger says.
const backgroundRatio = 0.9

// Replacement returns the upper bound of the whole replacement, quotes included.
func (s Sizes) Replacement() uint64 { return s.Summary + s.Quotes }

// estimated returns how many tokens a counter counts for n tokens of the provider;
// ratio is the provider's tokens for one of the counter's.
func estimated(n uint64, ratio float64) uint64 { return uint64(float64(n) / max(1, ratio)) }

// EstimatedBudget converts a budget to tokens of the policy's counter. At any ratio,
// at least half of the room stays: the ratio may be wrong, and a session that can
// make no call would never correct it.
func EstimatedBudget(budget, overhead uint64, ratio float64) uint64 {
	if budget <= overhead {
		return budget
	}
	return max(estimated(budget, ratio), overhead+(budget-overhead+1)/2)
}
