package plan

import (
	"crypto/sha256"
	"fmt"

	"nexus/turns"
)

// digest identifies a plan by its inputs: the last normal turn, the compaction in
// force, policy, summarizers, focus and sizes. Of the trigger it holds only whether
// it is an overflow, which plans for less. So a second request for another reason
// gives the same plan.
func (m planner) digest(previous turns.Ref) turns.Hash {
	p := m.path
	h := sha256.New()
	write := func(format string, args ...any) {
		s := fmt.Sprintf(format, args...)
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	write("nexus.plan.v1")
	write("%s", p.Last())
	write("%s", previous)
	write("%s", m.ref.Digest)
	write("%s", m.opt.Focus)
	write("%t %t", m.opt.FromOriginals, m.trigger.Kind == TriggerOverflow)
	write("%d %d %d %d %d", p.Limits.ContextWindow, p.Limits.MaxOutputTokens, p.Limits.SafetyMargin, p.Overhead, m.opt.Budget)
	for _, t := range m.opt.Tiers {
		write("%s", t)
	}
	return turns.Hash(h.Sum(nil))
}

// checkRepeated returns [ErrNothing] if the head is the compaction that this same
// plan made, or if the caller knows that the plan achieves nothing. Exception: a
// manual compaction may follow an automatic one that only shortened parts.
func (m planner) checkRepeated() error {
	p := m.path
	if f := p.InForce; f != nil && p.Head.Ref == f.Node.Ref && !f.Body.Plan.IsZero() {
		onlyShortened := f.Span.Through.IsZero() && f.Span.FirstKept.IsZero()
		asksForMore := m.trigger.Kind == TriggerManual && f.Body.Trigger.Kind != TriggerManual && onlyShortened
		if !asksForMore && m.digest(f.Span.Previous) == f.Body.Plan {
			return NothingError("compaction %v was made by the same plan, and nothing follows it", f.Node.Ref)
		}
	}
	if known := m.opt.PrevPlan; !known.IsZero() && m.digest(p.Previous()) == known {
		return NothingError("plan %v was tried before", known)
	}
	return nil
}
