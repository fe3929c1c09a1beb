package plan

import (
	"strings"

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
	shortens := ChooseShortened(p, e, tokens.Sub(m.measured(), target))
	if len(shortens) == 0 {
		return nil
	}
	plan := m.place(kind, 0, shortens, e.ForCall)
	if kind == Nudge {
		plan.Reads, plan.Task = halvesOf(p, shortens), firstTask(p)
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

// renewNudge returns the plan that makes the summary in the nudge in force anew, and shows the
// same parts shortened.
func (m planner) renewNudge() (*Plan, error) {
	p, f := m.path, m.path.InForce
	shortens := p.Shortened()
	if len(shortens) == 0 {
		return nil, NothingError("no part is shortened any more")
	}
	plan := m.place(Nudge, 0, shortens, f.Span.Call)
	plan.Reads, plan.Task, plan.Previous = halvesOf(p, shortens), firstTask(p), ""
	plan.Span.SawThrough = p.LaterSeen(plan.Reads[len(plan.Reads)-1].Ref, len(p.Halves))
	plan.SummaryTokens = max(tokens.Sub(m.sizes.Summary, plan.nudgeTokens()), MinSummaryTokens)
	return &plan, nil
}

// measured returns the tokens of the messages as the policy's trigger measures them: by the
// provider's count where that is the higher one.
func (m planner) measured() uint64 {
	p := m.path
	estimate := p.Tokens()
	return max(estimate, tokens.Sub(contextSize(p, m.policy, p.MeasureLoad(estimate), m.sizes), p.Overhead))
}

// shortensOnly reports whether the policy shortens parts, and cuts only what does not fit
// even so, and the context fits.
func (m planner) shortensOnly() bool {
	asked := m.trigger.Kind == TriggerManual || m.trigger.Kind == TriggerOverflow
	p := m.path
	return m.policy.Elide.Nudge != "" && !asked && p.Tokens()+p.Framing()[len(p.Halves)] <= m.sizes.Room
}

// maxTask bounds the task that a summarizer of shortened parts is told, in UTF-16 units.
const maxTask = 2_000

// firstTask returns the beginning of the first text of the user on the path.
func firstTask(p view.Path) string {
	for i := range p.Halves {
		h := &p.Halves[i]
		for j := range h.Messages {
			if m := &h.Messages[j]; m.Role == turns.User && !summary.IsResult(m) {
				if text := strings.TrimSpace(summary.TextOf(m)); text != "" {
					return tokens.HeadUTF16(text, maxTask)
				}
			}
		}
	}
	return ""
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

// halvesOf returns the halves that hold chosen parts, and the calls whose results these
// are, in path order.
func halvesOf(p view.Path, chosen map[view.PartAt]turns.ElidedPart) (out []summary.HalfTurn) {
	in := make(map[int]bool, len(chosen))
	results := make(map[string]bool)
	for at := range chosen {
		in[at.Half] = true
		if q := p.Part(at); q.Type == turns.ToolCallResponse {
			results[q.ID] = true
		}
	}
	p.EachPart(func(at view.PartAt, _ *turns.Message, q *turns.Part) {
		if q.Type == turns.ToolCall && results[q.ID] {
			in[at.Half] = true
		}
	})
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
