package ledger

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"nexus/turns"
)

// LogSubjects is the subjects of the log. The service has nexus.v1.>, and the prefix
// agents. belongs to the agent protocol of NATS: on a shared account neither may reach
// the streams.
const LogSubjects = "nexus.log.>"

// Subject is where a chain lives: nexus.log.<shard>.<tenant>.<entity>.<id>.
//
// The shard is the first byte, in hex, of the SHA-256 of key: the root session
// of the tree of forks, so that a tree never spans streams, or the entity's own
// id. There are 256 shards for ever. Today one stream takes them all.
func Subject(tenant, key string, c turns.Chain) string {
	shard := sha256.Sum256([]byte(key))
	const hex = "0123456789abcdef"
	token := string([]byte{hex[shard[0]>>4], hex[shard[0]&15]})
	return "nexus.log." + token + "." + tenant + "." + string(c.Entity) + "." + c.ID
}

// SessionSubject is the subject of session s whose tree is rooted at root.
func SessionSubject(tenant string, root, s turns.ID) string {
	return Subject(tenant, root.String(), turns.SessionChain(s))
}

// AnyShard is the pattern that matches the chain's subject whatever its shard.
func AnyShard(tenant string, c turns.Chain) string {
	return fmt.Sprintf("nexus.log.*.%s.%s.%s", tenant, c.Entity, c.ID)
}

// ParseSubject takes the subject of one chain apart. Errors: [ErrMalformed].
func ParseSubject(s string) (tenant string, c turns.Chain, err error) {
	var t [6]string
	rest, more := s, true
	for i := range t {
		if i > 0 && !more {
			break
		}
		t[i], rest, more = strings.Cut(rest, ".")
	}
	if more || t[0] != "nexus" || t[1] != "log" || !isShard(t[2]) || !turns.ValidName(t[3]) || !isToken(t[4]) || !isToken(t[5]) {
		return "", c, fmt.Errorf("%w: subject %q is not nexus.log.<shard>.<tenant>.<entity>.<id>", ErrMalformed, s)
	}
	return t[3], turns.Chain{Entity: turns.Entity(t[4]), ID: t[5]}, nil
}

// isToken reports whether s can be a token of a subject that is published to.
func isToken(s string) bool { return s != "" && !strings.ContainsAny(s, "*> \t\r\n") }

func isShard(s string) bool {
	return len(s) == 2 && strings.Trim(s, "0123456789abcdef") == ""
}
