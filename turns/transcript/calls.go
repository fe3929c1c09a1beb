package transcript

import (
	"fmt"
	"slices"
	"strconv"

	"nexus/turns/internal/values"
)

// CallIDs gives each call of a transcript an id that is unique within its message, and
// finds the call that a result answers. The id of the source is kept if no other call
// of the message has it.
type CallIDs map[string][]string // the source's id → the ids of its unanswered calls, oldest first

// Add returns the id of a call. before are the ids of the calls before it in its message.
func (c *CallIDs) Add(line int, id string, before []string, loss *LossReport) string {
	if *c == nil {
		*c = make(CallIDs)
	}
	if id != "" && !slices.Contains(before, id) {
		(*c)[id] = []string{id}
		return id
	}
	unique := ""
	for n := len(before) + 1; unique == "" || slices.Contains(before, unique); n++ {
		unique = fmt.Sprintf("%s-%d", id, n)
	}
	if len(before) == 0 {
		(*c)[id] = nil // a later result answers no call of an earlier message
	}
	(*c)[id] = append((*c)[id], unique)
	loss.Add(line, "repaired", "a tool call without an id of its own was given one", id)
	return unique
}

// AnsweredBy returns the id of the call that a result with the source's id answers. ok
// is false if there is none.
func (c CallIDs) AnsweredBy(id string) (call string, ok bool) {
	calls := c[id]
	if len(calls) == 0 {
		return "", false
	}
	if len(calls) > 1 {
		c[id] = calls[1:]
	}
	return calls[0], true
}

// ToolName returns the name of a called tool as the ledger can hold it, and reports it if
// that is another. record is the call's own id.
func (l *LossReport) ToolName(line int, name, record string) string {
	held := values.ToolName(name)
	if held != name {
		l.Add(line, "repaired", "a tool's name that the ledger can't hold, "+strconv.Quote(values.Clipped(name, 80))+", was changed", record)
	}
	return held
}
