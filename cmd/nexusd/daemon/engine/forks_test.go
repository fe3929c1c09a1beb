package engine

import (
	"fmt"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A fork sees what the session that it is taken from sees at that turn, where
// that is inherited through a fork of mode full too.
func TestForkFromAFullForkAtAnInheritedTurn(t *testing.T) {
	for _, mode := range []string{"as_seen", "full", "summary"} {
		t.Run(mode, func(t *testing.T) {
			e := newWorld().engine(t)
			s := create(t, e, 8000, "nexus")
			for i := range 8 {
				add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d", i)))
			}
			must(e.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
			y := add(t, e, s.ID, say("y", "y")).ID
			full := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: y, Mode: "full"}, []byte("1")))(t)
			below := must(e.Fork(t.Context(), alice, full.ID, api.CreateFork{Turn: add(t, e, full.ID, say("z", "z")).ID}, []byte("2")))(t)
			for name, from := range map[string]turns.ID{"the full fork": full.ID, "a fork of it": below.ID} {
				r := api.CreateFork{ID: newID(t), Turn: y, Mode: mode}
				f := must(e.Fork(t.Context(), alice, from, r, canon(r)))(t)
				seen := func(id turns.ID, at turns.ID) *api.Context {
					return must(e.Context(t.Context(), alice, id, api.GetContext{At: at, Budget: 100_000}))(t)
				}
				want, got := seen(from, y), seen(f.ID, turns.ID{})
				if len(want.Messages) != 18 {
					t.Errorf("%s sees %d messages, want 18", name, len(want.Messages))
				}
				if mode == "summary" {
					k := must(e.ListCompactions(t.Context(), alice, f.ID, api.ListCompactions{}))(t)
					if f.Mode != "summary" || len(k.Turns) != 1 || k.Turns[0].Session != f.ID || len(got.Messages) >= len(want.Messages) {
						t.Errorf("from %s: mode %s, %d compactions, %d messages", name, f.Mode, len(k.Turns), len(got.Messages))
					}
				} else if got.Fingerprint != want.Fingerprint || f.Mode != "full" {
					t.Errorf("from %s: mode %s, %d messages, want %d", name, f.Mode, len(got.Messages), len(want.Messages))
				}
				again := must(e.Fork(t.Context(), alice, from, r, canon(r)))(t)
				if again.ID != f.ID || again.Mode != f.Mode {
					t.Errorf("the same again: %s %s", again.ID, again.Mode)
				}
			}
			verified(t, e)
		})
	}
}
