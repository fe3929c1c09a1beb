package changes

import (
	"time"

	"nexus/cmd/internal/transcripts/alike"
)

// isPart reports whether the file has nothing of a session that the ledger lacks: it is an
// older copy.
func (x *comparison) isPart() bool { return len(x.news) == 0 && x.changed == 0 }

// hasLost reports whether the file has lost turns that the session holds: its responses are
// nowhere in the file, and no turn took their places. An older reader may have read a
// response otherwise, or twice; from the same reader, another response is of another file, and
// each of equal responses is one of its own.
func (c *comparer) hasLost(x *comparison, older bool) bool {
	var last time.Time
	had := make(map[alike.Sum]int)
	gone := 0
	for _, t := range x.turns {
		if t.changed && !older && t.normal && t.response != (alike.Sum{}) && c.responses[t.response] == 0 {
			return true
		}
		if t.time.After(last) {
			last = t.time
		}
		if t.normal && t.response != (alike.Sum{}) {
			had[t.response]++
		}
	}
	for response, n := range had {
		switch in := c.responses[response]; {
		case in == 0, !older && n > in:
			gone += min(n-in, x.unnamed(response))
		}
	}
	for _, n := range x.news {
		if had[n.response] == 0 && !n.time.After(last) {
			gone--
		}
	}
	return gone > 0
}

// unnamed counts the turns of a session with a response that the file does not name.
func (x *comparison) unnamed(response alike.Sum) (n int) {
	for _, t := range x.turns {
		if t.normal && !t.named && t.response == response {
			n++
		}
	}
	return n
}
