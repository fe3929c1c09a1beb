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
func (plan *Plan) digest(previous turns.Ref) turns.Hash {
	p := plan.Path
	h := sha256.New()
	put := func(format string, args ...any) {
		s := fmt.Sprintf(format, args...)
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	put("nexus.plan.v1")
	put("%s", p.Last())
	put("%s", previous)
	put("%s", plan.PolicyRef.Digest)
	put("%s", plan.Focus)
	put("%t %t", plan.FromOriginals, plan.Trigger.Kind == TriggerOverflow)
	put("%d %d %d %d %d", p.Limits.ContextWindow, p.Limits.MaxOutputTokens, p.Limits.SafetyMargin, p.Overhead, plan.Budget)
	for _, t := range plan.Tiers {
		put("%s", t)
	}
	return turns.Hash(h.Sum(nil))
}

// checkRepeated is [ErrNothing] where the head is the compaction that this
// very plan made, or the caller knows the plan to be fruitless. One that was
// due and only shortened parts is not what somebody asks for.
func (plan *Plan) checkRepeated(known turns.Hash) error {
	p := plan.Path
	shortened := func(f *view.InForce) bool {
		return plan.Trigger.Kind == TriggerManual && f.Body.Trigger.Kind != TriggerManual && f.Span.Through.IsZero() && f.Span.FirstKept.IsZero()
	}
	if f := p.InForce; f != nil && p.Head.Ref == f.Node.Ref && !shortened(f) && !f.Body.Plan.IsZero() && plan.digest(f.Span.Previous) == f.Body.Plan {
		return Nothing("compaction %v was made by the same plan, and nothing follows it", f.Node.Ref)
	}
	if !known.IsZero() && plan.digest(p.Previous()) == known {
		return Nothing("plan %v was tried before", known)
	}
	return nil
}
