package compactor

import (
	"fmt"
	"slices"
	"time"

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

// Load is the size of a context, as far as it is known without its messages.
type Load struct {
	Tokens   uint64        // of the messages, by the policy's counter, overhead not included
	Reported uint64        // of all, as [Path.Reported] says; 0: no provider counted
	Turns    uint64        // normal turns since the compaction in force, or since the root
	Messages uint64        // of the context; 0: not counted
	Idle     time.Duration // since the newest turn; 0: not told
}

// Due reports whether a context is to be compacted before its next call, and
// the trigger to plan with. Tokens are those of the context's messages as
// rendered, without the path's overhead, which is added here. The rest is read
// from the path, where it has halves.
//
// An overhead that leaves no room is no reason to compact: nothing that a
// compaction could do would help: the context is refused ([Policy.MayFit]).
func Due(p Path, pol Policy, tokens uint64) (turns.Trigger, bool) {
	return DueAt(p, pol, p.Load(tokens))
}

// Load is the load of the path's context, whose messages have so many tokens.
func (p Path) Load(tokens uint64) Load {
	l := Load{Tokens: tokens, Reported: p.Reported(), Idle: p.Idle}
	if p.View.When != "" {
		l.Tokens = max(tokens, p.tokens()) // what the view leaves out counts: it is a view
	}
	if p.InForce != nil {
		l.Messages = uint64(len(p.InForce.Body.Replacement) + len(p.InForce.Body.Nudge))
	}
	for i := range p.Halves {
		h := &p.Halves[i]
		l.Messages += uint64(len(h.Messages))
		if (p.InForce == nil || h.Depth > p.InForce.Node.Depth) && (i == 0 || h.Ref != p.Halves[i-1].Ref) {
			l.Turns++
		}
	}
	return l
}

// DueAt is [Due] for a load that the caller knows. Large outputs are seen only
// on a path that has halves.
func DueAt(p Path, pol Policy, l Load) (turns.Trigger, bool) {
	s := p.sizes(pol, turns.Trigger{}, 0)
	if pol.Mode == Manual || s.room == 0 || l.Tokens == 0 {
		return turns.Trigger{}, false
	}
	total, sized := p.total(pol, l, s), !pol.Unlimited(p.Limits)
	trigger := func(kind, format string, args ...any) (turns.Trigger, bool) {
		return turns.Trigger{Kind: kind, Detail: turns.Raw(fmt.Sprintf(format, args...))}, true
	}
	switch idle := uint64(l.Idle / time.Second); {
	case sized && total > s.trigger && total == p.Overhead+l.Tokens:
		return trigger(TriggerThreshold, `{"tokens":%d,"overhead":%d,"threshold":%d,"budget":%d}`, l.Tokens, p.Overhead, s.trigger, s.budget)
	case sized && total > s.trigger:
		return trigger(TriggerThreshold, `{"tokens":%d,"overhead":%d,"reported":%d,"threshold":%d,"budget":%d}`, l.Tokens, p.Overhead, l.Reported, s.trigger, s.budget)
	case pol.EveryTurns > 0 && l.Turns >= pol.EveryTurns:
		return trigger(TriggerTurns, `{"turns":%d,"every":%d}`, l.Turns, pol.EveryTurns)
	case pol.MaxMessages > 0 && l.Messages > pol.MaxMessages:
		return trigger(TriggerTurns, `{"messages":%d,"max":%d}`, l.Messages, pol.MaxMessages)
	case sized && pol.IdleSeconds > 0 && pol.IdleRatio > 0 && idle >= pol.IdleSeconds && total > s.idle:
		return trigger(TriggerIdle, `{"idle_seconds":%d,"tokens":%d,"threshold":%d}`, idle, l.Tokens, s.idle)
	}
	if f, _ := p.choose(pol, p.Overhead+l.Tokens, s); sized && f.Pays { // what a provider counts besides is no growth
		return trigger(TriggerThreshold, `{"tokens":%d,"overhead":%d,"budget":%d,"rewrite_tokens":%d,"saves_tokens":%d,"payback_calls":%.3g}`,
			l.Tokens, p.Overhead, s.budget, f.Rewrite, f.Saves, f.Payback)
	}
	if _, n := p.largeOutputs(pol); n > 0 {
		return trigger(TriggerLargeOutput, `{"chars":%d,"max":%d}`, n, pol.LargeOutputChars)
	}
	return turns.Trigger{}, false
}

// total is the size of a context as a policy goes by it, overhead included.
func (p Path) total(pol Policy, l Load, s sizes) uint64 {
	total := pol.size(p.Overhead+l.Tokens, l.Reported)
	if f := p.InForce; f != nil && total > s.trigger && p.Overhead+l.Tokens <= s.trigger && l.Tokens < f.Body.TokensAfter+s.room/5 {
		return p.Overhead + l.Tokens // the last compaction did not take away what the provider counts; another won't
	}
	return total
}

// Unlimited reports whether the policy has no budget for a session of such
// limits: it requires a window, and none is stated. Then only a budget that was
// asked for can be passed.
func (p Policy) Unlimited(limits turns.Limits) bool {
	return p.RequireWindow && limits.ContextWindow == 0
}

// Fits reports whether the path's context, whose messages have so many tokens
// by the policy's counter, fits a budget. A policy that goes by what providers
// report takes their count where it is the lower one: such a call was made.
// Where theirs is the higher it is due, but not refused: what a provider counts
// and we do not see, no compaction takes away.
func (p Policy) Fits(path Path, tokens, budget uint64) bool {
	return p.least(path, tokens) <= estimatedBudget(budget, path.Overhead, path.Ratio(p))
}

// MayFit is Fits without the policy's calibration: one that does not fit even so
// is refused, where nothing more can be taken out of it.
func (p Policy) MayFit(path Path, tokens, budget uint64) bool {
	return p.least(path, tokens) <= budget
}

func (p Policy) least(path Path, tokens uint64) uint64 {
	size := path.Overhead + tokens
	if reported := path.Reported(); (p.Measure == Reported || p.Measure == Higher) && reported > 0 {
		size = min(size, reported)
	}
	return size
}

// size is what a policy takes for the size of a context, overhead included.
func (p Policy) size(estimate, reported uint64) uint64 {
	switch {
	case p.Measure == Reported && reported > 0:
		return reported
	case p.Measure == Higher:
		return max(estimate, reported)
	}
	return estimate
}

// NeedsPath reports whether the policy's triggers can be judged only on a path
// that has its halves. A turn is taken to have up to eight messages.
func (p Policy) NeedsPath(l Load) bool {
	return p.LargeOutputChars > 0 || p.MaxMessages > 0 && l.Turns > p.MaxMessages/8 || p.Measure != Estimate ||
		(p.Counter != "" && p.Counter != tokens.Approx{}.Name())
}

// Reported is the size of the context by the provider's last count: its input
// tokens for the newest response whose call saw what is in force now, and an
// estimate of that response and all that was appended since. Overhead is in it.
// 0: no provider counted.
func (p Path) Reported() (total uint64) {
	for i := len(p.Halves) - 1; i >= 0; i-- {
		h := &p.Halves[i]
		if h.Depth <= p.Changed || (p.InForce != nil && h.Depth < p.InForce.Node.Depth) {
			return 0
		}
		total += h.shown()
		if h.Reported > 0 && h.Half == turns.ResponseHalf {
			return total + h.Reported
		}
	}
	return 0
}

// largeOutputs are the results of tools behind the newest response that are
// longer than the policy allows and shown whole, and the length of the largest
// in UTF-16 units; 0: there are none.
func (p Path) largeOutputs(pol Policy) (at []partAt, largest uint64) {
	if pol.LargeOutputChars == 0 {
		return nil, 0
	}
	shown := p.elidedAt()
	for i := len(p.Halves) - 1; i >= 0 && p.Halves[i].Half == turns.MessagesHalf; i-- {
		h := &p.Halves[i]
		for m := range h.Messages {
			for k := range h.Messages[m].Parts {
				q, here := &h.Messages[m].Parts[k], partAt{i, m, k}
				if q.Type != turns.ToolCallResponse || shown[here] {
					continue
				}
				if n := tokens.UTF16Len(resultText(q)); n > pol.LargeOutputChars {
					at, largest = append(at, here), max(largest, n)
				}
			}
		}
	}
	return at, largest
}

// HasLargeOutputs reports whether a result of a tool behind the newest response
// is longer than the policy allows and shown whole.
func HasLargeOutputs(p Path, pol Policy) bool {
	_, n := p.largeOutputs(pol)
	return n > 0
}

// Threshold is the number of tokens, overhead included, above which a context
// on p is due.
func Threshold(p Path, pol Policy) uint64 {
	return p.sizes(pol, turns.Trigger{}, 0).trigger
}

// isResult reports whether m holds results of tools.
func isResult(m *turns.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p turns.Part) bool { return p.Type == turns.ToolCallResponse })
}
