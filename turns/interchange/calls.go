package interchange

import (
	"fmt"
	"slices"
)

// callIDs gives each call of a transcript an id that is its own within its
// message, and finds the call that a result answers. A source's own is kept where it
// has one that no call of the same message has.
type callIDs map[string][]string // by the source's id: the calls' ids, first asked first

// add returns the id of a call; taken are the ids of the calls before it in its
// message.
func (c *callIDs) add(line int, id string, taken []string, loss *lossReport) string {
	if *c == nil {
		*c = make(callIDs)
	}
	if id != "" && !slices.Contains(taken, id) {
		(*c)[id] = []string{id}
		return id
	}
	own := ""
	for n := len(taken) + 1; own == "" || slices.Contains(taken, own); n++ {
		own = fmt.Sprintf("%s-%d", id, n)
	}
	if len(taken) == 0 {
		(*c)[id] = nil // those of an earlier message are not waited for
	}
	(*c)[id] = append((*c)[id], own)
	loss.add(line, "repaired", "a tool call without an id of its own was given one", id)
	return own
}

// answeredBy is the id of the call that a result with the source's id answers; ok
// is false where there is none.
func (c callIDs) answeredBy(id string) (call string, ok bool) {
	calls := c[id]
	if len(calls) == 0 {
		return "", false
	}
	if len(calls) > 1 {
		c[id] = calls[1:]
	}
	return calls[0], true
}
