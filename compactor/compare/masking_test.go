package compare

import (
	"fmt"
	"testing"
)

// Under masking a call sees the results of the newest ten assistant messages whole,
// and a line in place of each older one. Nothing is compacted, however long it grows.
func TestMaskingShowsTenResults(t *testing.T) {
	var in []Turn
	ms := user("begin")
	for i := range 30 {
		in = append(in, Turn{ms, calls(fmt.Sprint(i), "{}")})
		ms = result(fmt.Sprint(i), sized(1000, fmt.Sprintf("output of call_%d", i)))
	}
	in = append(in, Turn{ms, says("compare call_3 with call_25")})
	var sum Sum
	r := mustReplay(t, New(in, 0), Masking(), window(20_000, ""))
	sum.Add(r)
	last := r.Calls[len(r.Calls)-1]
	if sum.Compactions != 0 || last.Tokens < 10_000 || last.Tokens > 12_000 {
		t.Errorf("%d compactions, the last call reads %d tokens", sum.Compactions, last.Tokens)
	}
	if got, want := r.Survival.AllEarlier(), (Share{All: 2, Shown: 1, Reachable: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := Masking().Validate(); err != nil {
		t.Error(err)
	}
}
