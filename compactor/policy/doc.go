// Package policy holds compaction policies as data: named settings, the built-in
// policies, their validation, their digests, and their sizes for a window.
//
// All other packages of compactor read policies; the engine resolves them by name
// and stores their digests. The package knows no path and no plan, and reads no
// clock.
//
// Begin with policy.go for [Policy] and its settings, then builtin.go for the
// built-in policies. sizes.go scales a policy to the limits of a session.
package policy
