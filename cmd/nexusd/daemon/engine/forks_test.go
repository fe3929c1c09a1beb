package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
)

// A fork sees what the session that it is taken from sees at that turn, where
// that is inherited through a fork of mode full too.
func TestForkFromAFullForkAtAnInheritedTurn(t *testing.T) {
	for _, mode := range []string{"as_seen", "full", "summary"} {
		t.Run(mode, func(t *testing.T) {
			e := newWorld().Engine(t)
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
				visible := func(id turns.ID, at turns.ID) *api.Context {
					return must(e.Context(t.Context(), alice, id, api.GetContext{At: at, Budget: 100_000}))(t)
				}
				want, got := visible(from, y), visible(f.ID, turns.ID{})
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

// A fork starts from a summary made elsewhere only if that stands for what it
// covers, and leaves the fork as much room as its own policy would.
func TestSummaryForkReusesOnlyAFittingSummary(t *testing.T) {
	for name, tc := range map[string]struct {
		elsewhere func(t *testing.T, e *Engine, s turns.ID, ids []turns.ID)
		policy    *api.Policy
		want      string // mode of the compaction that the fork starts from
	}{
		"one of its own kind": {
			func(t *testing.T, e *Engine, s turns.ID, _ []turns.ID) {
				must(e.Compact(t.Context(), alice, s, api.RunCompaction{}, []byte("{}")))(t)
			}, nil, "reused",
		},
		"a truncation of another system": {
			func(t *testing.T, e *Engine, s turns.ID, ids []turns.ID) {
				r := api.RecordCompaction{FirstKept: ids[6], Dropped: true}
				must(e.Record(t.Context(), alice, s, r, canon(r)))(t)
			}, nil, "manual",
		},
		"a summary of another system": {
			func(t *testing.T, e *Engine, s turns.ID, ids []turns.ID) {
				r := api.RecordCompaction{FirstKept: ids[6], Summary: "not much"}
				must(e.Record(t.Context(), alice, s, r, canon(r)))(t)
			}, nil, "manual",
		},
		"one for a larger window": {
			func(t *testing.T, e *Engine, s turns.ID, _ []turns.ID) {
				must(e.Compact(t.Context(), alice, s, api.RunCompaction{}, []byte("{}")))(t)
			}, &api.Policy{Name: "nexus", Set: turns.Raw(`{"target_tokens":900}`)}, "manual",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newWorld().Engine(t)
			s := create(t, e, 8000, "nexus")
			var ids []turns.ID
			for i := range 8 {
				ids = append(ids, add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d", i))).ID)
			}
			on := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: ids[7]}, []byte("1")))(t)
			tc.elsewhere(t, e, on.ID, ids)
			f := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: ids[7], Mode: "summary", Policy: tc.policy}, []byte("2")))(t)
			got := must(e.ListCompactions(t.Context(), alice, f.ID, api.ListCompactions{}))(t).Turns
			if len(got) != 1 || got[0].Compaction.Mode != tc.want || got[0].Compaction.Dropped || len(got[0].Compaction.Replacement) == 0 {
				t.Errorf("%s", canon(got))
			}
			verified(t, e)
		})
	}
}

// The settings of a fork are those of its parent's tail, whatever the daemon has
// read: one that is behind stores none.
func TestForkTakesTheCurrentSettings(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	was, is := "old", "new"
	r := api.CreateSession{SessionSettings: api.SessionSettings{Model: &was}}
	s := must(e.Create(t.Context(), alice, r, canon(r)))(t)
	at := add(t, e, s.ID, say("q", "a")).ID
	late := behind(t, w)
	must(e.Set(t.Context(), alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{Model: &is}}, nil))(t)
	f := api.CreateFork{ID: newID(t), Turn: at}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := late.Fork(ctx, alice, s.ID, f, canon(f)); code(err) != api.Unavailable {
		t.Errorf("on a daemon that is behind: %v, want unavailable", err)
	}
	if _, err := e.Get(t.Context(), alice, f.ID, api.Read{}); code(err) != api.NotFound {
		t.Errorf("after that: %v, want not_found", err)
	}
	if got := must(e.Fork(t.Context(), alice, s.ID, f, canon(f)))(t); got.Model != is {
		t.Errorf("the fork runs under model %q, the session was set to %q before", got.Model, is)
	}
}

func TestForkModesShowTheirPartOfThePath(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 8000, "nexus")
	var ids []turns.ID
	for i := range 8 {
		ids = append(ids, add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d", i))).ID)
	}
	run := must(e.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	texts := func(id turns.ID) int {
		return len(must(e.Context(t.Context(), alice, id, api.GetContext{Budget: 100_000}))(t).Messages)
	}
	parent := texts(s.ID)
	f := func(turn turns.ID, mode string) *api.Session {
		return must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: turn, Mode: mode}, []byte(mode+turn.String())))(t)
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
	a := add(t, e, sum.ID, say("on the fork", "yes"))
	if a.Depth != 10 {
		t.Errorf("depth on the fork: %d, want 10: 8 turns, a compaction, this", a.Depth)
	}
	full := f(run.Compaction.ID, "full")
	add(t, e, full.ID, say("in full", "yes"))
	if got := texts(full.ID); got != 18 {
		t.Errorf("full, one turn later: %d messages, want 18", got)
	}
	tree := must(e.Tree(t.Context(), alice, sum.ID, api.GetTree{}))(t)
	if len(tree.Sessions) != 6 || tree.Root != s.ID {
		t.Errorf("tree: %d sessions from %s", len(tree.Sessions), tree.Root)
	}
	verified(t, e)
}

// What a fork of mode full leaves aside, its own forks leave aside too, wherever
// on the inherited path their heads go.
func TestForkOfAFullForkSeesNoCompaction(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 8000, "nexus")
	for i := range 8 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d", i)))
	}
	must(e.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	x := add(t, e, s.ID, say("x", "x")).ID
	y := add(t, e, s.ID, say("y", "y")).ID
	full := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: y, Mode: "full"}, []byte("1")))(t)
	z := add(t, e, full.ID, say("z", "z")).ID
	f := must(e.Fork(t.Context(), alice, full.ID, api.CreateFork{Turn: z}, []byte("2")))(t)
	messages := func() int {
		return len(must(e.Context(t.Context(), alice, f.ID, api.GetContext{Budget: 100_000}))(t).Messages)
	}
	if got := messages(); got != 22 {
		t.Errorf("at the fork point: %d messages, want 22", got)
	}
	must(e.Move(t.Context(), alice, f.ID, api.MoveSession{To: &x}, nil))(t)
	if got := messages(); got != 18 {
		t.Errorf("above the full fork's point: %d messages, want 18", got)
	}
	add(t, e, f.ID, say("w", "w"))
	if got := messages(); got != 20 {
		t.Errorf("after a turn there: %d messages, want 20", got)
	}
	verified(t, e)
}

func TestMergeBaseOfTwoSessions(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	a := add(t, e, s.ID, say("a", "a")).ID
	b := add(t, e, s.ID, say("b", "b")).ID
	f := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: a}, []byte("{}")))(t)
	c := add(t, e, f.ID, say("c", "c")).ID
	got := must(e.Base(t.Context(), alice, s.ID, api.GetBase{Other: api.Place{Session: f.ID}}))(t)
	if got.Base == nil || got.Base.ID != a || got.Head.ID != b || got.Other.ID != c {
		t.Errorf("base %+v of %+v and %+v", got.Base, got.Head, got.Other)
	}
	other := create(t, e, 0, "nexus")
	add(t, e, other.ID, say("o", "o"))
	if got := must(e.Base(t.Context(), alice, s.ID, api.GetBase{Other: api.Place{Session: other.ID}}))(t); got.Base != nil {
		t.Errorf("of two trees: %+v", got.Base)
	}
	if _, err := e.Base(t.Context(), reader.Caller{Tenant: "default", Agent: "bob"}, s.ID, api.GetBase{Other: api.Place{Session: f.ID}}); code(err) != api.NotFound {
		t.Errorf("another agent's sessions: %v, want not_found", err)
	}
	list := must(e.ListTurns(t.Context(), alice, f.ID, api.ListTurns{At: a}))(t)
	if len(list.Turns) != 1 || list.Turns[0].ID != a {
		t.Errorf("list at the fork point: %+v", list.Turns)
	}
}
