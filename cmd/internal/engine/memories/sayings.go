package memories

import (
	"crypto/sha256"

	"nexus/turns"
)

// sayings are the memories that a viewer was shown, by kind and text. One text may be two
// memories of the viewer: what the compaction of a fork learned of a turn that it inherits is
// of the fork's branch, and what its parent learns of that turn later is seen on every path.
//
// It keeps hashes: the texts of all memories that a request looks at may have 80 MB.
type sayings map[saying]struct{}

type saying struct {
	kind turns.MemoryKind
	text [sha256.Size]byte
}

// add adds a memory, and reports whether none said the same.
func (s sayings) add(k turns.MemoryKind, text string) bool {
	n := len(s)
	s[saying{k, sha256.Sum256([]byte(text))}] = struct{}{}
	return len(s) > n
}
