package plan

import (
	"slices"
	"strings"

	"nexus/compactor/policy"
	"nexus/compactor/quote"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns/tokens"
)

// bound sets how long the summary of a covering plan may be. Three bounds apply:
//
//   - the policy's share;
//   - the last summary plus half of what is newly covered, so that every compaction frees
//     at least the other half; of a summary that is made anew, half of what it reads;
//   - the room next to what is kept.
//
// pinned is the room for the texts of pinned turns.
func (m planner) bound(plan *Plan, pinned uint64) {
	replaced := m.path.Replaced()
	covered := tokens.Sub(tokens.Sub(plan.TokensBefore, plan.TokensKept), replaced)
	if plan.Renews { // what it reads was covered before, perhaps by a notice
		for i := range plan.Reads {
			covered += plan.Reads[i].Tokens
		}
	}
	room := min(m.sizes.Replacement(), replaced+covered/2, roomNextTo(m.sizes, m.shortened(plan.Shortens).Rendered(len(plan.Covered))[0], m.policy))
	pinned = min(pinned, room/2)
	// maxQuoted bounds what later compactions get; this compaction's room bounds
	// what it quotes itself.
	plan.Carries = view.Meta{FirstRequest: clipQuoted(plan.First), Pins: make([]string, len(plan.Pins))}
	for i, s := range plan.Pins {
		plan.Carries.Pins[i] = clipQuoted(s)
	}
	plan.First = (tokens.Approx{}).Clip(plan.First, m.policy.InApprox((room-pinned)/4))
	plan.Pins = clipPins(slices.Clone(plan.Carries.Pins), m.policy.InApprox(pinned))
	m.rules(plan, room/8)
	m.quote(plan, tokens.Share(room-pinned, float64(m.sizes.Quotes)/float64(max(1, m.sizes.Replacement()-pinned))))
	// In a small window quotes of files give way to the summary first, then the rules, and
	// the first request last.
	if room < plan.frameTokens()+MinSummaryTokens {
		plan.Quotes, plan.Carries.Quotes = nil, nil
	}
	if room < plan.frameTokens()+MinSummaryTokens {
		plan.Rules = nil
	}
	for plan.First != "" && room < plan.frameTokens()+MinSummaryTokens {
		plan.First = (tokens.Approx{}).Clip(plan.First, (tokens.Approx{}).Text(plan.First)*3/4)
	}
	plan.SummaryTokens = max(tokens.Sub(room, plan.frameTokens()), MinSummaryTokens)
}

// rules quotes what users demanded, in at most room tokens. What the quoted first
// request says already is left out, and carried all the same.
func (m planner) rules(plan *Plan, room uint64) {
	if !m.policy.KeepRules {
		return
	}
	var earlier []string
	if f := m.path.InForce; f != nil && !plan.FromOriginals {
		earlier = f.ReadMeta().Rules
	}
	plan.Carries.Rules = quote.Rules(earlier, plan.Reads)
	first := strings.Join(strings.Fields(plan.First), " ")
	rules := slices.DeleteFunc(slices.Clone(plan.Carries.Rules), func(r string) bool { return strings.Contains(first, r) })
	plan.Rules = quote.FitRules(rules, min(room, maxQuoted), m.path.CountedBy())
}

// quote chooses what the replacement quotes of files, in at most room tokens.
func (m planner) quote(plan *Plan, room uint64) {
	in := quote.Input{Halves: plan.Reads, Kept: plan.Kept, MaxTokens: min(m.sizes.Quotes, room), Counter: m.path.CountedBy()}
	if f := m.path.InForce; f != nil && !plan.FromOriginals {
		in.Previous = f.ReadMeta().Quotes
	}
	plan.Quotes = quote.Files(in)
	plan.Carries.Quotes = plan.Quotes
}

// Quoted returns what the replacement quotes beside the summary.
func (plan *Plan) Quoted() view.Quoted {
	return view.Quoted{First: plan.First, Pins: plan.Pins, Rules: plan.Rules, Quotes: plan.Quotes}
}

// frameTokens estimates the tokens of the replacement without its summary.
func (plan *Plan) frameTokens() uint64 { return view.FrameTokens(plan.Policy, plan.Quoted()) }

// roomNextTo returns the room for a replacement next to kept tokens of messages. If
// there is none, it returns no bound, because a short replacement would not help
// either.
func roomNextTo(s policy.Sizes, kept uint64, pol policy.Policy) uint64 {
	if room := tokens.Sub(s.Room, kept); room >= view.FrameTokens(pol, view.Quoted{})+MinSummaryTokens {
		return room
	}
	return policy.MaxTokens
}

// maxQuoted bounds each text that every later compaction quotes again, in tokens of
// approx-1.
const maxQuoted = 2000

func clipQuoted(s string) string { return (tokens.Approx{}).Clip(s, maxQuoted) }

// clipPins bounds pins to room tokens of approx-1. If they do not all fit, it keeps
// the newest and cuts long ones; the summary has to hold the others. It reuses the
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

// pinTokens returns the tokens of a pin in the replacement, by approx-1.
func pinTokens(s string) uint64 { return tokens.Approx{}.Text(summary.Data(s)) + 8 }

// pinnedTokens returns an upper bound of the tokens of all pins of p, by its
// counter. The summary may use what the pins leave.
func pinnedTokens(p view.Path) (n uint64) {
	for _, s := range p.PinnedTexts(len(p.Halves)) {
		n += p.CountedBy().Text(summary.Data(clipQuoted(s))) + 32
	}
	return n
}

// ReplacementBound returns the tokens of the replacement with the longest allowed
// summary.
func (plan *Plan) ReplacementBound() uint64 {
	return plan.SummaryTokens + plan.frameTokens()
}

// TokensAfter returns the tokens of the context's messages after the plan, with the
// longest allowed summary.
func (plan *Plan) TokensAfter() uint64 { return plan.TokensKept + plan.OutputBound() }

// OutputBound returns the tokens of everything that replaces what the plan removes,
// with the longest allowed summary.
func (plan *Plan) OutputBound() uint64 {
	switch f := plan.Path.InForce; {
	case plan.Kind == Cover:
		return plan.ReplacementBound()
	case plan.Kind == Shorten:
		return plan.Path.Replaced() // 0 without a compaction in force
	case f != nil:
		return tokens.Messages(plan.Path.CountedBy(), f.Body.Replacement) + plan.SummaryTokens + plan.nudgeTokens()
	}
	return plan.SummaryTokens + plan.nudgeTokens()
}

// IsShort reports whether a summary is within the plan's bound, in tokens of a model
// with a vocabulary.
func (plan *Plan) IsShort(text string) bool {
	return summary.ModelTokens(text) <= max(1, plan.Policy.InApprox(plan.SummaryTokens))
}

// LeavesRoom reports whether the plan may leave so many tokens of messages, though
// its own bound is lower. They must be at most halfway to the next compaction, and
// at least half of what the plan frees must stay free.
func (plan *Plan) LeavesRoom(after uint64) bool {
	s := SizesOf(plan.Path, plan.Policy, plan.Trigger, plan.Budget)
	planned := plan.TokensAfter()
	due := tokens.Sub(s.Trigger, plan.Path.Overhead)
	return after <= (max(planned, plan.TargetTokens)+due)/2 && after <= planned+tokens.Sub(plan.TokensBefore, planned)/2
}
