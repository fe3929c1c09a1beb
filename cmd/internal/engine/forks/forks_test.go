package forks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// A fork shows what its parent shows at the fork point, also if the parent inherits
// that turn through a fork of mode full.
func TestForkFromAFullForkAtAnInheritedTurn(t *testing.T) {
	for _, mode := range []string{"as_seen", "full", "summary"} {
		t.Run(mode, func(t *testing.T) {
			e := enginetest.NewWorld().Engine(t)
			s := enginetest.Create(t, e, 8000, "nexus")
			for i := range 8 {
				enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprintf("question %d %s", i, enginetest.Text(2000)), fmt.Sprintf("answer %d", i)))
			}
			enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
			y := enginetest.Add(t, e, s.ID, enginetest.Say("y", "y")).ID
			full := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: y, Mode: "full"}, []byte("1")))(t)
			below := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, full.ID, api.CreateFork{Turn: enginetest.Add(t, e, full.ID, enginetest.Say("z", "z")).ID}, []byte("2")))(t)
			for name, from := range map[string]turns.ID{"the full fork": full.ID, "a fork of it": below.ID} {
				r := api.CreateFork{ID: enginetest.ID(t), Turn: y, Mode: mode}
				f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, from, r, enginetest.JSON(r)))(t)
				visible := func(id turns.ID, at turns.ID) *api.Context {
					return enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, id, api.GetContext{At: at, Budget: 100_000}))(t)
				}
				want, got := visible(from, y), visible(f.ID, turns.ID{})
				if len(want.Messages) != 18 {
					t.Errorf("%s sees %d messages, want 18", name, len(want.Messages))
				}
				if mode == "summary" {
					k := enginetest.Must(e.History.ListCompactions(t.Context(), enginetest.Alice, f.ID, api.ListCompactions{}))(t)
					if f.Mode != "summary" || len(k.Turns) != 1 || k.Turns[0].Session != f.ID || len(got.Messages) >= len(want.Messages) {
						t.Errorf("from %s: mode %s, %d compactions, %d messages", name, f.Mode, len(k.Turns), len(got.Messages))
					}
				} else if got.Fingerprint != want.Fingerprint || f.Mode != "full" {
					t.Errorf("from %s: mode %s, %d messages, want %d", name, f.Mode, len(got.Messages), len(want.Messages))
				}
				again := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, from, r, enginetest.JSON(r)))(t)
				if again.ID != f.ID || again.Mode != f.Mode {
					t.Errorf("the same again: %s %s", again.ID, again.Mode)
				}
			}
			enginetest.Verified(t, e)
		})
	}
}

// A fork starts from a summary made elsewhere only if that summary replaces what it
// covers, and leaves the fork as much room as its own policy would.
func TestSummaryForkReusesOnlyAFittingSummary(t *testing.T) {
	for name, tc := range map[string]struct {
		elsewhere func(t *testing.T, e *engine.Engine, s turns.ID, ids []turns.ID)
		policy    *api.Policy
		want      string // mode of the compaction that the fork starts from
	}{
		"one of its own kind": {
			func(t *testing.T, e *engine.Engine, s turns.ID, _ []turns.ID) {
				enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s, api.RunCompaction{}, []byte("{}")))(t)
			}, nil, "reused",
		},
		"a truncation of another system": {
			func(t *testing.T, e *engine.Engine, s turns.ID, ids []turns.ID) {
				r := api.RecordCompaction{FirstKept: ids[6], Dropped: true}
				enginetest.Must(e.Compactions.Record(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r)))(t)
			}, nil, "manual",
		},
		"a summary of another system": {
			func(t *testing.T, e *engine.Engine, s turns.ID, ids []turns.ID) {
				r := api.RecordCompaction{FirstKept: ids[6], Summary: "not much"}
				enginetest.Must(e.Compactions.Record(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r)))(t)
			}, nil, "manual",
		},
		"one for a larger window": {
			func(t *testing.T, e *engine.Engine, s turns.ID, _ []turns.ID) {
				enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s, api.RunCompaction{}, []byte("{}")))(t)
			}, &api.Policy{Name: "nexus", Set: turns.Raw(`{"target_tokens":900}`)}, "manual",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := enginetest.NewWorld().Engine(t)
			s := enginetest.Create(t, e, 8000, "nexus")
			var ids []turns.ID
			for i := range 8 {
				ids = append(ids, enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprintf("question %d %s", i, enginetest.Text(2000)), fmt.Sprintf("answer %d", i))).ID)
			}
			on := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: ids[7]}, []byte("1")))(t)
			tc.elsewhere(t, e, on.ID, ids)
			f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: ids[7], Mode: "summary", Policy: tc.policy}, []byte("2")))(t)
			got := enginetest.Must(e.History.ListCompactions(t.Context(), enginetest.Alice, f.ID, api.ListCompactions{}))(t).Turns
			if len(got) != 1 || got[0].Compaction.Mode != tc.want || got[0].Compaction.Dropped || len(got[0].Compaction.Replacement) == 0 {
				t.Errorf("%s", enginetest.JSON(got))
			}
			enginetest.Verified(t, e)
		})
	}
}

// The settings of a fork are those of its parent's tail, whatever the daemon has
// read: one that is behind stores none.
func TestForkTakesTheCurrentSettings(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	was, is := "old", "new"
	r := api.CreateSession{SessionSettings: api.SessionSettings{Model: &was}}
	s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
	at := enginetest.Add(t, e, s.ID, enginetest.Say("q", "a")).ID
	late := w.EngineBehind(t)
	enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{Model: &is}}, nil))(t)
	f := api.CreateFork{ID: enginetest.ID(t), Turn: at}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := late.Forks.Fork(ctx, enginetest.Alice, s.ID, f, enginetest.JSON(f)); enginetest.Code(err) != api.Unavailable {
		t.Errorf("on a daemon that is behind: %v, want unavailable", err)
	}
	if _, err := e.Reader.Get(t.Context(), enginetest.Alice, f.ID, api.Read{}); enginetest.Code(err) != api.NotFound {
		t.Errorf("after that: %v, want not_found", err)
	}
	if got := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, f, enginetest.JSON(f)))(t); got.Model != is {
		t.Errorf("the fork runs under model %q, the session was set to %q before", got.Model, is)
	}
}

func TestForkModesShowTheirPartOfThePath(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 8000, "nexus")
	var ids []turns.ID
	for i := range 8 {
		ids = append(ids, enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprintf("question %d %s", i, enginetest.Text(2000)), fmt.Sprintf("answer %d", i))).ID)
	}
	run := enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	texts := func(id turns.ID) int {
		return len(enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, id, api.GetContext{Budget: 100_000}))(t).Messages)
	}
	parent := texts(s.ID)
	f := func(turn turns.ID, mode string) *api.Session {
		return enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: turn, Mode: mode}, []byte(mode+turn.String())))(t)
	}
	if got := texts(f(run.Compaction.ID, "as_seen").ID); got != parent {
		t.Errorf("as_seen at the compaction: %d messages, the parent sees %d", got, parent)
	}
	if got := texts(f(run.Compaction.ID, "full").ID); got != 16 {
		t.Errorf("full at the compaction: %d messages, want all 16", got)
	}
	if got := texts(f(ids[2], "as_seen").ID); got != 6 {
		t.Errorf("as_seen at turn 3: %d messages, want 6: nothing that came later", got)
	}
	sum := f(ids[7], "summary")
	if sum.Compactions != 1 {
		t.Errorf("mode summary at the last turn: %d compactions, want the reused one", sum.Compactions)
	}
	a := enginetest.Add(t, e, sum.ID, enginetest.Say("on the fork", "yes"))
	if a.Depth != 10 {
		t.Errorf("depth on the fork: %d, want 10: 8 turns, a compaction, this", a.Depth)
	}
	full := f(run.Compaction.ID, "full")
	enginetest.Add(t, e, full.ID, enginetest.Say("in full", "yes"))
	if got := texts(full.ID); got != 18 {
		t.Errorf("full, one turn later: %d messages, want 18", got)
	}
	tree := enginetest.Must(e.History.Tree(t.Context(), enginetest.Alice, sum.ID, api.GetTree{}))(t)
	if len(tree.Sessions) != 6 || tree.Root != s.ID {
		t.Errorf("tree: %d sessions from %s", len(tree.Sessions), tree.Root)
	}
	enginetest.Verified(t, e)
}

// What a fork of mode full leaves aside, its own forks leave aside too, wherever
// on the inherited path their heads go.
func TestForkOfAFullForkSeesNoCompaction(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 8000, "nexus")
	for i := range 8 {
		enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprintf("question %d %s", i, enginetest.Text(2000)), fmt.Sprintf("answer %d", i)))
	}
	enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	x := enginetest.Add(t, e, s.ID, enginetest.Say("x", "x")).ID
	y := enginetest.Add(t, e, s.ID, enginetest.Say("y", "y")).ID
	full := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: y, Mode: "full"}, []byte("1")))(t)
	z := enginetest.Add(t, e, full.ID, enginetest.Say("z", "z")).ID
	f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, full.ID, api.CreateFork{Turn: z}, []byte("2")))(t)
	messages := func() int {
		return len(enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, f.ID, api.GetContext{Budget: 100_000}))(t).Messages)
	}
	if got := messages(); got != 22 {
		t.Errorf("at the fork point: %d messages, want 22", got)
	}
	enginetest.Must(e.Sessions.Move(t.Context(), enginetest.Alice, f.ID, api.MoveSession{To: &x}, nil))(t)
	if got := messages(); got != 18 {
		t.Errorf("above the full fork's point: %d messages, want 18", got)
	}
	enginetest.Add(t, e, f.ID, enginetest.Say("w", "w"))
	if got := messages(); got != 20 {
		t.Errorf("after a turn there: %d messages, want 20", got)
	}
	enginetest.Verified(t, e)
}
