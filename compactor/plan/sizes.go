package plan

import (
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
)

// SizesOf returns the sizes of pol on p, for a trigger; a budget other than 0 stands
// in for the policy's.
func SizesOf(p view.Path, pol policy.Policy, trigger turns.Trigger, budget uint64) policy.Sizes {
	return pol.Scale(policy.Bounds{
		Limits: p.Limits, Overhead: p.Overhead, Ratio: p.Ratio(pol), Budget: budget, Overflow: trigger.Kind == TriggerOverflow,
	})
}
