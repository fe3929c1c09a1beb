package turns

import (
	"slices"
	"testing"
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
