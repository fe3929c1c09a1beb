package plan

import (
	"crypto/sha256"
	"fmt"

	"nexus/compactor/view"
	"nexus/turns"
)

// digest names what a plan follows from: the last normal turn, the compaction
// in force, policy, summarizers, focus, sizes. A trigger is not in it but for
// an overflow, which plans for less: so a compaction that is asked for again
// for another reason is the same plan.
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

// checkRepeated is [ErrNothing] where the head is the compaction that this
// very plan made, or the caller knows the plan to be fruitless. One that was
// due and only shortened parts is not what somebody asks for.
func (m planner) checkRepeated() error {
	p := m.path
	shortened := func(f *view.InForce) bool {
		return m.trigger.Kind == TriggerManual && f.Body.Trigger.Kind != TriggerManual && f.Span.Through.IsZero() && f.Span.FirstKept.IsZero()
	}
	if f := p.InForce; f != nil && p.Head.Ref == f.Node.Ref && !shortened(f) && !f.Body.Plan.IsZero() && m.digest(f.Span.Previous) == f.Body.Plan {
		return NothingError("compaction %v was made by the same plan, and nothing follows it", f.Node.Ref)
	}
	if known := m.opt.PrevPlan; !known.IsZero() && m.digest(p.Previous()) == known {
		return NothingError("plan %v was tried before", known)
	}
	return nil
}
