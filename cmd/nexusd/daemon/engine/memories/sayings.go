package memories

import "nexus/turns"

// sayings are the memories that a viewer was shown, by kind and text. One text may be two
// memories of the viewer: what the compaction of a fork learned of a turn that it inherits is
// of the fork's branch, and what its parent learns of that turn later is seen on every path.
type sayings map[saying]struct{}

type saying struct {
	kind turns.MemoryKind
	text string
}

// add adds a memory, and reports whether none said the same.
func (s sayings) add(k turns.MemoryKind, text string) bool {
	n := len(s)
	s[saying{k, text}] = struct{}{}
	return len(s) > n
}
