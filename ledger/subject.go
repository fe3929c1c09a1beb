package ledger

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"nexus/turns"
)

// Subject is where a chain lives: agents.<shard>.<tenant>.<entity>.<id>.
//
// The shard is the first byte, in hex, of the SHA-256 of key: the root session
// of the tree of forks, so that a tree never spans streams, or the entity's own
// id. There are 256 shards for ever. Today one stream takes them all.
func Subject(tenant, key string, c turns.Chain) string {
	shard := sha256.Sum256([]byte(key))
	return fmt.Sprintf("agents.%02x.%s.%s.%s", shard[0], tenant, c.Entity, c.ID)
}

// SessionSubject is the subject of session s whose tree is rooted at root.
func SessionSubject(tenant string, root, s turns.ID) string {
	return Subject(tenant, root.String(), turns.SessionChain(s))
}

// AnyShard is the pattern that matches the chain's subject whatever its shard.
func AnyShard(tenant string, c turns.Chain) string {
	return fmt.Sprintf("agents.*.%s.%s.%s", tenant, c.Entity, c.ID)
}

// ParseSubject takes a subject apart. Errors: [ErrMalformed].
func ParseSubject(s string) (tenant string, c turns.Chain, err error) {
	t := strings.Split(s, ".")
	if len(t) != 5 || t[0] != "agents" || !isShard(t[1]) || !turns.ValidName(t[2]) || t[3] == "" || t[4] == "" {
		return "", c, fmt.Errorf("%w: subject %q", ErrMalformed, s)
	}
	return t[2], turns.Chain{Entity: turns.Entity(t[3]), ID: t[4]}, nil
}

func isShard(s string) bool {
	return len(s) == 2 && strings.Trim(s, "0123456789abcdef") == ""
}
