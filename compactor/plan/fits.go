package plan

import (
	"nexus/compactor/summary"
	"nexus/turns/tokens"
)

// short reports whether a summary's text is no longer than what was asked for in
// a model's own tokens.
func (plan *Plan) IsShort(text string) bool {
	return summary.ModelTokens(text) <= max(1, plan.Policy.InApprox(plan.SummaryTokens))
}

// Fits reports whether the plan may leave so many tokens of messages though it
// asked for fewer: they are halfway to the next compaction at most, and at least
// half of what it was to free is free.
func (plan *Plan) Fits(after uint64) bool {
	s := SizesOf(plan.Path, plan.Policy, plan.Trigger, plan.Budget)
	asked := plan.After()
	due := tokens.Sub(s.Trigger, plan.Path.Overhead)
	return after <= (max(asked, plan.TargetTokens)+due)/2 && after <= asked+tokens.Sub(plan.TokensBefore, asked)/2
}
