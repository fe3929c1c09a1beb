package plan

import (
	"fmt"
	"time"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// The kinds of triggers.
const (
	TriggerThreshold   = "threshold"
	TriggerManual      = "manual"
	TriggerOverflow    = "overflow"
	TriggerTurns       = "turns"
	TriggerLargeOutput = "large_output"
	TriggerIdle        = "idle"
)

// Due reports whether a context must be compacted before its next call, and the
// trigger to plan with. tokens counts the rendered messages; Due adds the path's
// overhead. It reads the rest from the path, if that has halves.
//
// If overhead leaves no room, the context is not due: no compaction can help.
// [MayFit] refuses it.
func Due(p view.Path, pol policy.Policy, tokens uint64) (turns.Trigger, bool) {
	return DueAt(p, pol, p.MeasureLoad(tokens))
}

// DueAt is [Due] for a load that the caller knows. It finds large outputs only on a
// path that has halves.
func DueAt(p view.Path, pol policy.Policy, l view.Load) (turns.Trigger, bool) {
	s := SizesOf(p, pol, turns.Trigger{}, 0)
	if pol.Mode == policy.Manual || s.Room == 0 || l.Tokens == 0 {
		return turns.Trigger{}, false
	}
	total, sized := contextSize(p, pol, l, s), !pol.Unlimited(p.Limits)
	trigger := func(kind, format string, args ...any) (turns.Trigger, bool) {
		return turns.Trigger{Kind: kind, Detail: turns.Raw(fmt.Sprintf(format, args...))}, true
	}
	idle := uint64(l.Idle / time.Second)
	tooLarge, byEstimate := sized && total > s.Trigger, total == p.Overhead+l.Tokens
	cacheExpired := pol.IdleSeconds > 0 && pol.IdleRatio > 0 && idle >= pol.IdleSeconds
	switch {
	case tooLarge && byEstimate:
		return trigger(TriggerThreshold, `{"tokens":%d,"overhead":%d,"threshold":%d,"budget":%d}`, l.Tokens, p.Overhead, s.Trigger, s.Budget)
	case tooLarge:
		return trigger(TriggerThreshold, `{"tokens":%d,"overhead":%d,"reported":%d,"threshold":%d,"budget":%d}`, l.Tokens, p.Overhead, l.Reported, s.Trigger, s.Budget)
	case pol.EveryTurns > 0 && l.Turns >= pol.EveryTurns:
		return trigger(TriggerTurns, `{"turns":%d,"every":%d}`, l.Turns, pol.EveryTurns)
	case pol.MaxMessages > 0 && l.Messages > pol.MaxMessages:
		return trigger(TriggerTurns, `{"messages":%d,"max":%d}`, l.Messages, pol.MaxMessages)
	case sized && cacheExpired && total > s.Idle:
		return trigger(TriggerIdle, `{"idle_seconds":%d,"tokens":%d,"threshold":%d}`, idle, l.Tokens, s.Idle)
	}
	if f, _ := chooseByCost(p, pol, p.Overhead+l.Tokens, s); sized && f.Pays { // growth leaves out what only the provider counts
		return trigger(TriggerThreshold, `{"tokens":%d,"overhead":%d,"budget":%d,"rewrite_tokens":%d,"saves_tokens":%d,"payback_calls":%.3g}`,
			l.Tokens, p.Overhead, s.Budget, f.Rewrite, f.Saves, f.Payback)
	}
	if _, n := largeOutputs(p, pol); n > 0 {
		return trigger(TriggerLargeOutput, `{"chars":%d,"max":%d}`, n, pol.LargeOutputChars)
	}
	return turns.Trigger{}, false
}

// contextSize returns the size of a context as the policy measures it, overhead
// included.
func contextSize(p view.Path, pol policy.Policy, l view.Load, s policy.Sizes) uint64 {
	estimate := p.Overhead + l.Tokens
	total := measuredSize(pol, estimate, l.Reported)
	dueByProviderOnly := total > s.Trigger && estimate <= s.Trigger
	justCompacted := p.InForce != nil && l.Tokens < p.InForce.Body.TokensAfter+s.Room/5
	if dueByProviderOnly && justCompacted {
		return estimate // the last compaction did not remove what only the provider counts, so another will not
	}
	return total
}

// Fits reports whether the path's context fits a budget; tokens counts its messages,
// by the policy's counter. A policy that uses provider reports takes the lower of
// the two counts: the provider accepted that call. If the report is higher, the
// context is due but not refused, because no compaction removes what only the
// provider counts.
func Fits(p policy.Policy, path view.Path, tokens, budget uint64) bool {
	return lowestSize(p, path, tokens) <= policy.EstimatedBudget(budget, path.Overhead, path.Ratio(p))
}

// MayFit is Fits without the policy's calibration. A context that fails even this
// test is refused if nothing more can be removed.
func MayFit(p policy.Policy, path view.Path, tokens, budget uint64) bool {
	return lowestSize(p, path, tokens) <= budget
}

func lowestSize(p policy.Policy, path view.Path, tokens uint64) uint64 {
	size := path.Overhead + tokens
	if reported := path.ReportedTokens(); (p.Measure == policy.Reported || p.Measure == policy.Higher) && reported > 0 {
		size = min(size, reported)
	}
	return size
}

// measuredSize returns the size of a context by the policy's measure, overhead
// included.
func measuredSize(p policy.Policy, estimate, reported uint64) uint64 {
	switch {
	case p.Measure == policy.Reported && reported > 0:
		return reported
	case p.Measure == policy.Higher:
		return max(estimate, reported)
	}
	return estimate
}

// minMessageTokens is what a message counts at least: the framing of chat formats, by
// [tokens.Approx], without its parts.
const minMessageTokens = 4

// NeedsPath reports whether the policy's triggers need a path with its halves. Only such a
// path has its messages counted: a turn has up to [turns.MaxMessages] of them, so the number
// of turns bounds nothing, and the tokens do.
func NeedsPath(p policy.Policy, l view.Load) bool {
	mayHaveTooManyMessages := p.MaxMessages > 0 && l.Tokens/minMessageTokens > p.MaxMessages
	ownCounter := p.Counter != "" && p.Counter != tokens.Approx{}.Name()
	return p.LargeOutputChars > 0 || mayHaveTooManyMessages || p.Measure != policy.Estimate || ownCounter
}

// largeOutputs returns the tool results after the newest response that are longer
// than the policy allows and shown whole, and the length of the longest in UTF-16
// units; 0: there are none.
func largeOutputs(p view.Path, pol policy.Policy) (at []view.PartAt, largest uint64) {
	if pol.LargeOutputChars == 0 {
		return nil, 0
	}
	shown := p.ElidedAt()
	for i := len(p.Halves) - 1; i >= 0 && p.Halves[i].Half == turns.MessagesHalf; i-- {
		h := &p.Halves[i]
		for m := range h.Messages {
			for k := range h.Messages[m].Parts {
				q, here := &h.Messages[m].Parts[k], view.PartAt{Half: i, Message: m, Part: k}
				if q.Type != turns.ToolCallResponse || shown[here] {
					continue
				}
				if n := tokens.UTF16Len(summary.ResultText(q)); n > pol.LargeOutputChars {
					at, largest = append(at, here), max(largest, n)
				}
			}
		}
	}
	return at, largest
}

// HasLargeOutputs reports whether a tool result after the newest response is longer
// than the policy allows and shown whole.
func HasLargeOutputs(p view.Path, pol policy.Policy) bool {
	_, n := largeOutputs(p, pol)
	return n > 0
}

// Threshold returns the number of tokens, overhead included, above which a context
// on p is due.
func Threshold(p view.Path, pol policy.Policy) uint64 {
	return SizesOf(p, pol, turns.Trigger{}, 0).Trigger
}

// SizesOf returns the sizes of pol on p for a trigger. A budget other than 0
// replaces the policy's.
func SizesOf(p view.Path, pol policy.Policy, trigger turns.Trigger, budget uint64) policy.Sizes {
	return pol.Scale(policy.Bounds{
		Limits: p.Limits, Overhead: p.Overhead, Ratio: p.Ratio(pol), Budget: budget, Overflow: trigger.Kind == TriggerOverflow,
	})
}

// FlushDue reports whether a context is large enough for the flush of its cycle. The
// flush is due before [DueAt] reports the context due by size, and stays due from
// then on.
func FlushDue(p view.Path, pol policy.Policy, l view.Load) bool {
	s := SizesOf(p, pol, turns.Trigger{}, 0)
	if !pol.Flush.On() || pol.Mode == policy.Manual || s.Room == 0 || l.Tokens == 0 || pol.Unlimited(p.Limits) {
		return false
	}
	return contextSize(p, pol, l, s) > s.Flush
}
