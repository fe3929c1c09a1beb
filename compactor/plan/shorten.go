package plan

import (
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// shorten returns the plan that shortens parts and covers nothing. nil: the policy
// has no such plans, or this one does not pay.
func (m planner) shorten() *Plan {
	p, e := m.path, m.policy.Elide
	if large, _ := largeOutputs(p, m.policy); len(large) > 0 && m.trigger.Kind != TriggerManual {
		shortens := make(map[view.PartAt]turns.ElidedPart, len(large))
		for _, at := range large {
			q := p.Part(at)
			shortens[at] = view.ElidedTo(q, string(view.Trimmed), TrimToEnds(e, summary.ResultText(q)))
		}
		plan := m.place(Shorten, 0, shortens, false)
		frees, fits := plan.TokensKept < p.ShownFrom(0), plan.TokensAfter() <= m.sizes.Room
		wanted := m.trigger.Kind == TriggerLargeOutput || plan.TokensBefore > m.sizes.Room
		if frees && wanted && fits {
			return &plan
		}
	}
	if !e.On() || len(p.Halves) == 0 {
		return nil
	}
	if m.policy.Cost.Patience > 0 && m.trigger.Kind != TriggerManual && m.trigger.Kind != TriggerOverflow {
		return m.prune()
	}
	kind, target := Shorten, m.sizes.Target
	if e.Nudge != "" {
		kind, target = Nudge, tokens.Sub(target, m.sizes.Summary)
	}
	shortens := ChooseShortened(p, e, tokens.Sub(p.Tokens(), target))
	if len(shortens) == 0 {
		return nil
	}
	// After an overflow the elisions stay: the parts must not come back whole when
	// the user speaks, because the provider refused them.
	forCall := e.ForCall && m.trigger.Kind != TriggerOverflow
	plan := m.place(kind, 0, shortens, forCall)
	if kind == Nudge {
		plan.Reads = halvesOf(p, shortens)
		plan.Previous = nudged(p)
		plan.Span.SawThrough = p.LaterSeen(plan.Reads[len(plan.Reads)-1].Ref, len(p.Halves))
		saved := tokens.Sub(p.ShownFrom(0), plan.TokensKept)
		plan.SummaryTokens = max(tokens.Sub(min(m.sizes.Summary, saved/2), plan.nudgeTokens()), MinSummaryTokens)
	}
	// The plan must free enough to pay for a rewrite, and the context must fit.
	// Otherwise a cut has to do it.
	freed := tokens.Sub(plan.TokensBefore, plan.TokensAfter())
	least := max(1, tokens.Share(plan.TokensBefore, m.policy.MinReclaimRatio))
	if freed < least || !m.fitsShown(&plan) {
		return nil
	}
	return &plan
}

// prune returns the plan that shortens what pays. nil: nothing pays, or covering
// turns is required or pays more.
func (m planner) prune() *Plan {
	p := m.path
	if contextSize(p, m.policy, p.MeasureLoad(p.Tokens()), m.sizes) > m.sizes.Trigger {
		return nil
	}
	forecast, shortens := chooseByCost(p, m.policy, p.Overhead+p.Tokens(), m.sizes)
	if len(shortens) == 0 {
		return nil
	}
	plan := m.place(Shorten, 0, shortens, false)
	plan.Expects = forecast
	if !m.fitsShown(&plan) {
		return nil
	}
	return &plan
}

// fitsShown reports whether the context, as rendered, fits after a plan that covers
// nothing.
func (m planner) fitsShown(plan *Plan) bool {
	return plan.TokensAfter()+m.path.Framing()[len(m.path.Halves)] <= m.sizes.Room
}

// halvesOf returns the halves that hold chosen parts, in path order.
func halvesOf(p view.Path, chosen map[view.PartAt]turns.ElidedPart) (out []summary.HalfTurn) {
	in := make(map[int]bool, len(chosen))
	for at := range chosen {
		in[at.Half] = true
	}
	for i := range p.Halves {
		if in[i] {
			out = append(out, p.Halves[i])
		}
	}
	return out
}

// nudged returns the summary in the nudge of the compaction in force; "" for none.
func nudged(p view.Path) string {
	if p.InForce == nil || len(p.InForce.Body.Nudge) == 0 {
		return ""
	}
	return p.InForce.Body.Summary
}
