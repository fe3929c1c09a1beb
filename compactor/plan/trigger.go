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

// The kinds of triggers that policies here know.
const (
	TriggerThreshold   = "threshold"
	TriggerManual      = "manual"
	TriggerOverflow    = "overflow"
	TriggerTurns       = "turns"
	TriggerLargeOutput = "large_output"
	TriggerIdle        = "idle"
)

// Due reports whether a context is to be compacted before its next call, and
// the trigger to plan with. Tokens are those of the context's messages as
// rendered, without the path's overhead, which is added here. The rest is read
// from the path, where it has halves.
//
// An overhead that leaves no room is no reason to compact: nothing that a
// compaction could do would help: the context is refused ([MayFit]).
func Due(p view.Path, pol policy.Policy, tokens uint64) (turns.Trigger, bool) {
	return DueAt(p, pol, p.MeasureLoad(tokens))
}

// DueAt is [Due] for a load that the caller knows. Large outputs are seen only
// on a path that has halves.
func DueAt(p view.Path, pol policy.Policy, l view.Load) (turns.Trigger, bool) {
	s := SizesOf(p, pol, turns.Trigger{}, 0)
	if pol.Mode == policy.Manual || s.Room == 0 || l.Tokens == 0 {
		return turns.Trigger{}, false
	}
	total, sized := contextSize(p, pol, l, s), !pol.Unlimited(p.Limits)
	trigger := func(kind, format string, args ...any) (turns.Trigger, bool) {
		return turns.Trigger{Kind: kind, Detail: turns.Raw(fmt.Sprintf(format, args...))}, true
	}
	switch idle := uint64(l.Idle / time.Second); {
	case sized && total > s.Trigger && total == p.Overhead+l.Tokens:
		return trigger(TriggerThreshold, `{"tokens":%d,"overhead":%d,"threshold":%d,"budget":%d}`, l.Tokens, p.Overhead, s.Trigger, s.Budget)
	case sized && total > s.Trigger:
		return trigger(TriggerThreshold, `{"tokens":%d,"overhead":%d,"reported":%d,"threshold":%d,"budget":%d}`, l.Tokens, p.Overhead, l.Reported, s.Trigger, s.Budget)
	case pol.EveryTurns > 0 && l.Turns >= pol.EveryTurns:
		return trigger(TriggerTurns, `{"turns":%d,"every":%d}`, l.Turns, pol.EveryTurns)
	case pol.MaxMessages > 0 && l.Messages > pol.MaxMessages:
		return trigger(TriggerTurns, `{"messages":%d,"max":%d}`, l.Messages, pol.MaxMessages)
	case sized && pol.IdleSeconds > 0 && pol.IdleRatio > 0 && idle >= pol.IdleSeconds && total > s.Idle:
		return trigger(TriggerIdle, `{"idle_seconds":%d,"tokens":%d,"threshold":%d}`, idle, l.Tokens, s.Idle)
	}
	if f, _ := chooseByCost(p, pol, p.Overhead+l.Tokens, s); sized && f.Pays { // what a provider counts besides is no growth
		return trigger(TriggerThreshold, `{"tokens":%d,"overhead":%d,"budget":%d,"rewrite_tokens":%d,"saves_tokens":%d,"payback_calls":%.3g}`,
			l.Tokens, p.Overhead, s.Budget, f.Rewrite, f.Saves, f.Payback)
	}
	if _, n := largeOutputs(p, pol); n > 0 {
		return trigger(TriggerLargeOutput, `{"chars":%d,"max":%d}`, n, pol.LargeOutputChars)
	}
	return turns.Trigger{}, false
}

// contextSize is the size of a context as a policy measures it, overhead included.
func contextSize(p view.Path, pol policy.Policy, l view.Load, s policy.Sizes) uint64 {
	total := measuredSize(pol, p.Overhead+l.Tokens, l.Reported)
	if f := p.InForce; f != nil && total > s.Trigger && p.Overhead+l.Tokens <= s.Trigger && l.Tokens < f.Body.TokensAfter+s.Room/5 {
		return p.Overhead + l.Tokens // the last compaction did not take away what the provider counts; another won't
	}
	return total
}

// Fits reports whether the path's context, whose messages have so many tokens
// by the policy's counter, fits a budget. A policy that uses what providers
// report takes their count where it is the lower one: such a call was made.
// Where theirs is the higher it is due, but not refused: what a provider counts
// and we do not see, no compaction takes away.
func Fits(p policy.Policy, path view.Path, tokens, budget uint64) bool {
	return lowestSize(p, path, tokens) <= policy.EstimatedBudget(budget, path.Overhead, path.Ratio(p))
}

// MayFit is Fits without the policy's calibration: one that does not fit even so
// is refused, where nothing more can be taken out of it.
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

// measuredSize is what a policy takes for the size of a context, overhead included.
func measuredSize(p policy.Policy, estimate, reported uint64) uint64 {
	switch {
	case p.Measure == policy.Reported && reported > 0:
		return reported
	case p.Measure == policy.Higher:
		return max(estimate, reported)
	}
	return estimate
}

// NeedsPath reports whether the policy's triggers can be judged only on a path
// that has its halves. A turn is taken to have up to eight messages.
func NeedsPath(p policy.Policy, l view.Load) bool {
	return p.LargeOutputChars > 0 || p.MaxMessages > 0 && l.Turns > p.MaxMessages/8 || p.Measure != policy.Estimate ||
		(p.Counter != "" && p.Counter != tokens.Approx{}.Name())
}

// largeOutputs are the results of tools behind the newest response that are
// longer than the policy allows and shown whole, and the length of the largest
// in UTF-16 units; 0: there are none.
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

// HasLargeOutputs reports whether a result of a tool behind the newest response
// is longer than the policy allows and shown whole.
func HasLargeOutputs(p view.Path, pol policy.Policy) bool {
	_, n := largeOutputs(p, pol)
	return n > 0
}

// Threshold is the number of tokens, overhead included, above which a context
// on p is due.
func Threshold(p view.Path, pol policy.Policy) uint64 {
	return SizesOf(p, pol, turns.Trigger{}, 0).Trigger
}

// SizesOf returns the sizes of pol on p, for a trigger; a budget other than 0 stands
// in for the policy's.
func SizesOf(p view.Path, pol policy.Policy, trigger turns.Trigger, budget uint64) policy.Sizes {
	return pol.Scale(policy.Bounds{
		Limits: p.Limits, Overhead: p.Overhead, Ratio: p.Ratio(pol), Budget: budget, Overflow: trigger.Kind == TriggerOverflow,
	})
}

// FlushDue reports whether a context is large enough for the flush of its
// cycle: it is before [DueAt] says that it is due by size, and from then on.
func FlushDue(p view.Path, pol policy.Policy, l view.Load) bool {
	s := SizesOf(p, pol, turns.Trigger{}, 0)
	if !pol.Flush.On() || pol.Mode == policy.Manual || s.Room == 0 || l.Tokens == 0 || pol.Unlimited(p.Limits) {
		return false
	}
	return contextSize(p, pol, l, s) > s.Flush
}
