package compactor

import (
	"fmt"

	"nexus/turns"
)

// The kinds of triggers that policies here know.
const (
	TriggerThreshold = "threshold"
	TriggerManual    = "manual"
	TriggerOverflow  = "overflow"
)

// Due reports whether a context is to be compacted before its next call, and
// the trigger to plan with. Tokens are those of the context's messages, as
// rendered or as a provider measured them, without the path's overhead, which
// is added here.
//
// An overhead that leaves no room is no reason to compact: nothing that a
// compaction could do would help. Rendering then fails ([Fit]).
func Due(p Path, pol Policy, tokens uint64) (turns.Trigger, bool) {
	s := pol.sizesFor(p, turns.Trigger{}, 0)
	if pol.Mode == Manual || s.room == 0 || tokens == 0 || p.Overhead+tokens <= s.trigger {
		return turns.Trigger{}, false
	}
	detail := fmt.Sprintf(`{"tokens":%d,"overhead":%d,"threshold":%d,"budget":%d}`, tokens, p.Overhead, s.trigger, s.budget)
	return turns.Trigger{Kind: TriggerThreshold, Detail: turns.Raw(detail)}, true
}

// Pressure is the share of the budget that a context's messages and the
// path's overhead fill; over 1 the call can't be made.
func Pressure(p Path, pol Policy, tokens uint64) float64 {
	return float64(p.Overhead+tokens) / float64(pol.Budget(p.Limits))
}

// Threshold is the number of tokens, overhead included, above which a context
// on p is due.
func Threshold(p Path, pol Policy) uint64 {
	return pol.sizesFor(p, turns.Trigger{}, 0).trigger
}
