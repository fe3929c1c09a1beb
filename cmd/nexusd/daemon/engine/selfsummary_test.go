package engine

import (
	"fmt"
	"slices"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A summary is sealed under the keys of every session that its writer saw text
// of, so that erasing one of them makes it unreadable: also of those that come
// after what it covers, where the agent says that it had them in view.
func TestASummaryIsSealedUnderAllThatWasSeen(t *testing.T) {
	for name, says := range map[string]bool{"what the plan shows": false, "more": true} {
		t.Run(name, func(t *testing.T) {
			e := newWorld().engine(t)
			q := create(t, e, 8000, "nexus")
			var last turns.ID
			for i := range 8 {
				last = add(t, e, q.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), "a")).ID
			}
			p := must(e.Fork(t.Context(), alice, q.ID, api.CreateFork{Turn: last}, []byte("1")))(t)
			secret := add(t, e, p.ID, say("the secret "+long(300), "yes")).ID
			c := must(e.Fork(t.Context(), alice, p.ID, api.CreateFork{Turn: secret}, []byte("2")))(t)
			add(t, e, c.ID, say("go on", "yes"))
			taken := must(e.Take(t.Context(), alice, c.ID, api.TakeCompaction{}))(t)
			r := api.SubmitCompaction{Plan: taken.Plan, Text: "In short: the secret."}
			if says {
				r.SawThrough = secret
			}
			k := must(e.Submit(t.Context(), alice, c.ID, r, canon(r)))(t)
			keys := must(e.keysOf(turns.Ref{Session: c.ID, Turn: k.ID}))(t)
			for who, x := range map[string]struct {
				id   turns.ID
				want bool
			}{"the first session": {q.ID, true}, "the fork in between": {p.ID, says}, "the session itself": {c.ID, true}} {
				if slices.Contains(keys, x.id) != x.want {
					t.Errorf("sealed under the key of %s: %v, want %v", who, !x.want, x.want)
				}
			}
			verified(t, e)
		})
	}
}
