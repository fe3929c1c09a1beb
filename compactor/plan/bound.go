package plan

import (
	"slices"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns/tokens"
)

// bound sets what the summary of a covering plan may take: the policy's share,
// and no more than the last summary and half of what is newly covered, so that
// every compaction frees at least the other half, and no more than there is room
// for next to what is kept. pinned is the room for the texts of pinned turns.
func (m planner) bound(plan *Plan, pinned uint64) {
	replaced := m.path.Replaced()
	covered := tokens.Sub(tokens.Sub(plan.TokensBefore, plan.TokensKept), replaced)
	room := min(m.sizes.Summary, replaced+covered/2, roomNextTo(m.sizes, m.shortened(plan.Shortens).Rendered(len(plan.Covered))[0], m.policy))
	pinned = min(pinned, room/2)
	// What is kept for later compactions is bounded by itself; what this one
	// quotes, by its room.
	plan.Carries = view.Meta{FirstRequest: clipQuoted(plan.First), Pins: make([]string, len(plan.Pins))}
	for i, s := range plan.Pins {
		plan.Carries.Pins[i] = clipQuoted(s)
	}
	plan.First = (tokens.Approx{}).Clip(plan.First, m.policy.InApprox((room-pinned)/4))
	plan.Pins = clipPins(slices.Clone(plan.Carries.Pins), m.policy.InApprox(pinned))
	plan.SummaryTokens = max(tokens.Sub(room, view.FrameTokens(m.policy, plan.First, plan.Pins)), MinSummaryTokens)
}

// roomNextTo is the room for a replacement next to kept tokens of messages; no
// bound where there is none, for then a short one does not help.
func roomNextTo(s policy.Sizes, kept uint64, pol policy.Policy) uint64 {
	if room := tokens.Sub(s.Room, kept); room >= view.FrameTokens(pol, "", nil)+MinSummaryTokens {
		return room
	}
	return policy.MaxTokens
}

// maxQuoted bounds one text that is quoted from compaction to compaction, in
// tokens of approx-1.
const maxQuoted = 2000

func clipQuoted(s string) string { return (tokens.Approx{}).Clip(s, maxQuoted) }

// clipPins bounds pins to room tokens of approx-1. Where not all fit, the newest
// stand, a long one is cut, and the summary has to hold the others. It reuses the
// memory of pins.
func clipPins(pins []string, room uint64) []string {
	all := uint64(0)
	for _, s := range pins {
		all += pinTokens(s)
	}
	if all <= room {
		return pins
	}
	for i := len(pins) - 1; i >= 0; i-- {
		s := (tokens.Approx{}).Clip(pins[i], room/2)
		if s == "" {
			return pins[i+1:]
		}
		pins[i] = s
		room = tokens.Sub(room, pinTokens(s))
	}
	return pins
}

// pinTokens is what a pin takes in the replacement, in tokens of approx-1.
func pinTokens(s string) uint64 { return tokens.Approx{}.Text(summary.Data(s)) + 8 }

// pinnedTokens is an upper bound of what all pins of p take, by its counter. The
// summary may have what they do not take.
func pinnedTokens(p view.Path) (n uint64) {
	for _, s := range p.PinnedTexts(len(p.Halves)) {
		n += p.CountedBy().Text(summary.Data(clipQuoted(s))) + 32
	}
	return n
}

// ReplacementBound is the tokens of the replacement where the summary is as long
// as it may be.
func (plan *Plan) ReplacementBound() uint64 {
	return plan.SummaryTokens + view.FrameTokens(plan.Policy, plan.First, plan.Pins)
}

// TokensAfter is the tokens of the context's messages after the plan, where its
// summary is as long as it may be.
func (plan *Plan) TokensAfter() uint64 { return plan.TokensKept + plan.OutputBound() }

// OutputBound is the tokens of all that stands in for what the plan takes out,
// where the summary is as long as it may be.
func (plan *Plan) OutputBound() uint64 {
	switch f := plan.Path.InForce; {
	case plan.Kind == Cover:
		return plan.ReplacementBound()
	case plan.Kind == Shorten:
		return plan.Path.Replaced() // 0 where no compaction is in force
	case f != nil:
		return tokens.Messages(plan.Path.CountedBy(), f.Body.Replacement) + plan.SummaryTokens + plan.nudgeTokens()
	}
	return plan.SummaryTokens + plan.nudgeTokens()
}

// IsShort reports whether a summary's text is no longer than the plan allows, in
// tokens of a model with a vocabulary.
func (plan *Plan) IsShort(text string) bool {
	return summary.ModelTokens(text) <= max(1, plan.Policy.InApprox(plan.SummaryTokens))
}

// LeavesRoom reports whether the plan may leave so many tokens of messages
// though it allows fewer: they are halfway to the next compaction at most, and at
// least half of what the plan frees is free.
func (plan *Plan) LeavesRoom(after uint64) bool {
	s := SizesOf(plan.Path, plan.Policy, plan.Trigger, plan.Budget)
	planned := plan.TokensAfter()
	due := tokens.Sub(s.Trigger, plan.Path.Overhead)
	return after <= (max(planned, plan.TargetTokens)+due)/2 && after <= planned+tokens.Sub(plan.TokensBefore, planned)/2
}
