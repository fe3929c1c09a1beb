package turns

import (
	"slices"
	"testing"
	"time"
)

func TestInferredMembersOfMeta(t *testing.T) {
	for _, c := range []struct {
		meta    string
		bound   TimeBound
		program []int
	}{
		{``, "", nil},
		{`[]`, "", nil},
		{`{}`, "", nil},
		{`{"time_bound":"not_after","program_messages":[0,2]}`, TimeNotAfter, []int{0, 2}},
		{`{"time_bound":"not_before"}`, TimeNotBefore, nil},
		{`{"time_bound":"soon","program_messages":{"0":1}}`, "", nil},
		{`{"time_bound":7,"program_messages":["0"]}`, "", nil},
		{`{"time_bound":"not_after","program_messages":7}`, TimeNotAfter, nil},
	} {
		if got := TimeBoundOf(Raw(c.meta)); got != c.bound {
			t.Errorf("bound of %s: %q, want %q", c.meta, got, c.bound)
		}
		if got := ProgramMessages(Raw(c.meta)); !slices.Equal(got, c.program) {
			t.Errorf("program messages of %s: %v, want %v", c.meta, got, c.program)
		}
	}
}

func TestLateUsagesOfMeta(t *testing.T) {
	id := DeriveID(time.Unix(1775919000, 0), "a turn")
	late := map[ID]LateUsage{id: {Model: "m", Usage: Usage{InputTokens: 3, OutputTokens: 1}}}
	b, err := EncodeJSON(map[string]any{"late_usage": late})
	if err != nil {
		t.Fatal(err)
	}
	if got := LateUsages(b); len(got) != 1 || got[id] != late[id] {
		t.Errorf("%s reads as %v", b, got)
	}
	for _, meta := range []string{``, `[]`, `{}`, `{"late_usage":[]}`, `{"late_usage":{"x":{}}}`, `{"late_usage":7}`} {
		if got := LateUsages(Raw(meta)); len(got) > 0 {
			t.Errorf("%s reads as %v", meta, got)
		}
	}
}
