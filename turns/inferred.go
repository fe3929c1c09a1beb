package turns

import (
	"time"

	"github.com/go-json-experiment/json"
)

// Synthetic stands where the model is named in responses that Claude Code wrote itself, as for
// a call that failed. No model was called for them, and none is in force by them.
const Synthetic = "<synthetic>"

// What an importer inferred about a turn stands in the turn's meta, so that no view
// takes it for what the source states.

// TimeBound says how the time of a turn relates to the true one, which its source does
// not state.
type TimeBound string

// The zero TimeBound: the source states the time.
const (
	TimeNotAfter  TimeBound = "not_after"  // the true time is not after it
	TimeNotBefore TimeBound = "not_before" // the true time is not before it
)

// TimeBoundOf returns the member "time_bound" of a turn's meta. A meta belongs to the
// client and may be anything; what is no bound states none.
func TimeBoundOf(meta Raw) TimeBound {
	var m struct {
		Bound Raw `json:"time_bound"`
	}
	if meta.Kind() == '{' && json.Unmarshal(meta, &m) == nil {
		if s, ok := m.Bound.Text(); ok && (s == string(TimeNotAfter) || s == string(TimeNotBefore)) {
			return TimeBound(s)
		}
	}
	return ""
}

// IsTimeKnown reports whether a time says anything: importers give a turn the year 1970 as
// its bound where the source has no time at all.
func IsTimeKnown(t time.Time) bool { return t.Unix() > 0 }

// UncountedCalls returns how many calls an import found whose tokens no turn of the session
// has: the member "calls" of "uncounted" in the session's meta.
func UncountedCalls(meta Raw) uint64 {
	var m struct {
		Uncounted Raw `json:"uncounted"`
	}
	var u struct {
		Calls uint64 `json:"calls"`
	}
	if meta.Kind() != '{' || json.Unmarshal(meta, &m) != nil || m.Uncounted.Kind() != '{' || json.Unmarshal(m.Uncounted, &u) != nil {
		return 0
	}
	return min(u.Calls, MaxCount)
}

// LateUsage is the usage of a call whose turn was stored before its usage was known.
type LateUsage struct {
	Model string    `json:"model,omitzero"`
	Time  time.Time `json:"time,omitzero"` // zero: that of the turn
	Usage Usage     `json:"usage"`
}

// LateUsages returns the member "late_usage" of a session's meta: usage that came after its
// turn was stored, by turn. A meta belongs to the client; nil for what is no such member.
func LateUsages(meta Raw) map[ID]LateUsage {
	var m struct {
		Late Raw `json:"late_usage"`
	}
	var late map[ID]LateUsage
	if meta.Kind() != '{' || json.Unmarshal(meta, &m) != nil || m.Late.Kind() != '{' || json.Unmarshal(m.Late, &late) != nil {
		return nil
	}
	return late
}

// SupersededBy returns the member "superseded_by" of a session's meta: the session that an
// import made in its place. A meta belongs to the client; what is no id names none.
func SupersededBy(meta Raw) ID {
	var m struct {
		By Raw `json:"superseded_by"`
	}
	if meta.Kind() != '{' || json.Unmarshal(meta, &m) != nil {
		return ID{}
	}
	s, _ := m.By.Text()
	id, err := ParseID(s)
	if err != nil {
		return ID{}
	}
	return id
}

// ProgramMessages returns the member "program_messages" of a turn's meta: the indexes of
// the turn's messages that have the role of the user and that a program wrote (a hook, a
// skill, the agent's own notes), not a person. Sorted as they stand there; nil for
// none, and for what is no list of indexes.
func ProgramMessages(meta Raw) []int {
	var m struct {
		At Raw `json:"program_messages"`
	}
	var at []int
	if meta.Kind() != '{' || json.Unmarshal(meta, &m) != nil || m.At.Kind() != '[' || json.Unmarshal(m.At, &at) != nil {
		return nil
	}
	return at
}
