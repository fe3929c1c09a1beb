package plan

import (
	"nexus/compactor/policy"
)

// builtin is the newest version of a built-in policy.
func builtin(name string) policy.Policy {
	p, ok := policy.Builtin(name)
	if !ok {
		panic("no policy " + name)
	}
	return p
}
