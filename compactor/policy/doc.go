// Package policy holds compaction policies as data: named settings, the built-in
// policies, their validation and digests, and their sizes for one window.
//
// Everybody else in compactor reads policies; the engine resolves them by name
// and stores their digests. The package knows no path and no plan, and reads no
// clock.
//
// Begin with policy.go for [Policy] and its settings, then builtin.go for the
// policies themselves. sizes.go scales a policy to the limits of a session.
package policy
