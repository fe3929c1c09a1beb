package plan

import (
	"slices"

	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

// Rebase returns the plan for the path as it is now, after the head moved while a
// summary was made. Only the kept halves and the sizes may differ, so the summary
// made for plan fits the rebased plan too.
//
// Errors: [ErrStale] if another compaction is in force than plan was made on, or if
// the path lacks what plan covers, first keeps or elides; [ErrOverhead] as a
// [BudgetError].
func (plan *Plan) Rebase(now view.Path) (*Plan, error) {
	old, cut := plan.Path, len(plan.Covered)
	if plan.Kind == Cover {
		now = now.Lasting()
	}
	if now.Previous() != old.Previous() {
		return nil, stale("compaction %v is in force, it was planned on %v", now.Previous(), old.Previous())
	}
	if len(now.Halves) < cut || !slices.EqualFunc(now.Halves[:cut], plan.Covered, sameHalf) {
		return nil, stale("what it covers, through %v, is not on the path to %v", plan.Span.Through, now.Head.Ref)
	}
	if len(plan.Kept) > 0 && (len(now.Halves) == cut || !sameHalf(now.Halves[cut], plan.Kept[0])) {
		return nil, stale("%v, which it keeps first, is not on the path to %v", plan.Span.FirstKept, now.Head.Ref)
	}
	if saw := plan.Span.SawThrough; old.Contains(saw) && !now.Contains(saw) {
		return nil, stale("%v, which its summarizer saw, is not on the path to %v", saw, now.Head.Ref)
	}
	for at := range plan.Shortens {
		if at.Half >= len(now.Halves) || !sameHalf(now.Halves[at.Half], old.Halves[at.Half]) {
			return nil, stale("a part that it shortens is not on the path to %v", now.Head.Ref)
		}
	}
	if plan.Span.Call && now.Head.Depth > old.Head.Depth && userSpokeAfter(now, old.Head.Depth) {
		return nil, stale("the user spoke since, and it stands for one call only")
	}
	m := planner{
		path: now, policy: plan.Policy, ref: plan.PolicyRef, trigger: plan.Trigger, sizes: SizesOf(now, plan.Policy, plan.Trigger, plan.Budget),
		opt: Options{Focus: plan.Focus, FromOriginals: plan.FromOriginals, Renew: plan.Renews, Known: plan.Known, Tiers: plan.Tiers, Budget: plan.Budget},
	}
	out := m.place(plan.Kind, cut, plan.Shortens, plan.Span.Call) // turns were only added, so the index of the cut still holds
	out.Span.SawThrough = plan.Span.SawThrough
	if len(out.Elided) != len(plan.Elided) {
		return nil, stale("%d of the %d parts it shows shortened are on the path to %v", len(out.Elided), len(plan.Elided), now.Head.Ref)
	}
	if m.sizes.Room == 0 {
		return nil, overheadError(now, m.sizes)
	}
	out.Reads, out.Task, out.Previous, out.First, out.Pins, out.Carries = plan.Reads, plan.Task, plan.Previous, plan.First, plan.Pins, plan.Carries
	out.Rules, out.Quotes = plan.Rules, plan.Quotes
	out.SummaryTokens, out.Expects = plan.SummaryTokens, plan.Expects
	return &out, nil
}

// WithSawThrough returns plan for a summary whose author saw everything through ref.
func (plan *Plan) WithSawThrough(ref turns.Ref) *Plan {
	out := *plan
	out.Span.SawThrough = ref
	return &out
}

// userSpokeAfter reports whether a turn deeper than depth holds text of the user.
func userSpokeAfter(p view.Path, depth uint64) bool {
	for i := range p.Halves {
		if h := &p.Halves[i]; h.Depth > depth && h.Half == turns.MessagesHalf && turns.CountUserTexts(h.Messages) > 0 {
			return true
		}
	}
	return false
}

func sameHalf(a, b summary.HalfTurn) bool { return a.Ref == b.Ref && a.Half == b.Half }
