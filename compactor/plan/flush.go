package plan

import (
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
)

// FlushDue reports whether a context is large enough for the flush of its
// cycle: it is before [DueAt] says that it is due by size, and from then on.
func FlushDue(p view.Path, pol policy.Policy, l view.Load) bool {
	s := SizesOf(p, pol, turns.Trigger{}, 0)
	if !pol.Flush.On() || pol.Mode == policy.Manual || s.Room == 0 || l.Tokens == 0 || pol.Unlimited(p.Limits) {
		return false
	}
	return contextSize(p, pol, l, s) > s.Flush
}
