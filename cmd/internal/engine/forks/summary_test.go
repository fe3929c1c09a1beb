package forks_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

// history opens a session with n turns of about 500 tokens each, and returns it with
// the ids of its turns.
func history(t *testing.T, e *engine.Engine, n int) (s turns.ID, ids []turns.ID) {
	t.Helper()
	s = enginetest.Create(t, e, 8000, "nexus").ID
	return s, extend(t, e, s, n)
}

// extend appends n such turns.
func extend(t *testing.T, e *engine.Engine, s turns.ID, n int) (ids []turns.ID) {
	t.Helper()
	for i := range n {
		ids = append(ids, enginetest.Add(t, e, s, enginetest.Say(fmt.Sprintf("question %d %s", i, enginetest.Text(2000)), fmt.Sprintf("answer %d", i))).ID)
	}
	return ids
}

// open forks a session at a turn.
func open(t *testing.T, e *engine.Engine, s turns.ID, r api.CreateFork) *api.Session {
	t.Helper()
	if r.ID.IsZero() {
		r.ID = enginetest.ID(t)
	}
	return enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r)))(t)
}

// compact compacts a session.
func compact(t *testing.T, e *engine.Engine, s turns.ID) turns.ID {
	t.Helper()
	return enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s, api.RunCompaction{}, []byte("{}")))(t).Compaction.ID
}

// ownCompactions returns the modes of a session's own compactions, newest first.
func ownCompactions(t *testing.T, e *engine.Engine, s turns.ID) (modes []string) {
	t.Helper()
	for _, x := range enginetest.Must(e.History.ListCompactions(t.Context(), enginetest.Alice, s, api.ListCompactions{}))(t).Turns {
		if x.Session == s {
			modes = append(modes, x.Compaction.Mode)
		}
	}
	return modes
}

// cutLog refuses every append after the first of them, as a crash does.
type cutLog struct {
	ledger.Log
	appends int
}

func (l *cutLog) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	if l.appends--; l.appends < 0 {
		return 0, fmt.Errorf("%w: crash", ledger.ErrUnavailable)
	}
	return l.Log.Append(ctx, subject, expect, payload)
}

// A crash between the two events of a fork leaves a fork without its summary. The
// same request completes it, on another daemon too, and once.
func TestRetryAddsTheSummaryThatACrashPrevented(t *testing.T) {
	for name, elsewhere := range map[string]bool{"a new summary": false, "a reused one": true} {
		t.Run(name, func(t *testing.T) {
			w := enginetest.NewWorld()
			e := w.Engine(t)
			s, ids := history(t, e, 8)
			want := "manual"
			if elsewhere {
				compact(t, e, open(t, e, s, api.CreateFork{Turn: ids[7]}).ID)
				want = "reused"
			}
			r := api.CreateFork{ID: enginetest.ID(t), Turn: ids[7], Mode: "summary"}
			e.Reader.Log = &cutLog{w.Log, 1}
			if _, err := e.Forks.Fork(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r)); enginetest.Code(err) != api.Indeterminate {
				t.Fatalf("cut short after the first event: %v, want indeterminate", err)
			}
			other := w.Engine(t)
			if got := ownCompactions(t, other, r.ID); len(got) != 0 {
				t.Errorf("before the retry: compactions %v, want none", got)
			}
			for range 2 {
				open(t, other, s, r)
				if got := ownCompactions(t, other, r.ID); !slices.Equal(got, []string{want}) {
					t.Errorf("after a retry: compactions %v, want one, %s", got, want)
				}
			}
			enginetest.Verified(t, other)
		})
	}
}

// A retry adds no summary to a fork that continued: it is of the fork point alone.
func TestRetryAddsNoSummaryToAForkThatContinued(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, ids := history(t, e, 1)
	r := api.CreateFork{ID: enginetest.ID(t), Turn: ids[0], Mode: "summary"}
	e.Reader.Log = &cutLog{e.Reader.Log, 1}
	_, _ = e.Forks.Fork(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r)) // the summary may be missing
	e.Reader.Log = e.Reader.Log.(*cutLog).Log
	extend(t, e, r.ID, 8)
	open(t, e, s, r)
	if got := ownCompactions(t, e, r.ID); len(got) != 0 {
		t.Errorf("compactions %v, want none", got)
	}
}

// A compaction of another branch covers an early part of the fork's path. The fork
// reuses it and shows the rest; it makes no second one.
func TestReusedSummaryOfAnEarlyPartIsTheOnlyOne(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, ids := history(t, e, 8)
	compact(t, e, open(t, e, s, api.CreateFork{Turn: ids[6]}).ID)
	f := open(t, e, s, api.CreateFork{Turn: ids[7], Mode: "summary"})
	if got := ownCompactions(t, e, f.ID); !slices.Equal(got, []string{"reused"}) {
		t.Errorf("compactions %v, want one, reused", got)
	}
	enginetest.Verified(t, e)
}

// A summary that builds on the compaction in force at the fork point is legal there.
// One that builds on another, or on none, lacks what that compaction covers.
func TestSummaryIsReusedOnTheCompactionThatItBuildsOn(t *testing.T) {
	for name, tc := range map[string]struct{ mode, want string }{"the same": {"as_seen", "reused"}, "none": {"full", "manual"}} {
		t.Run(name, func(t *testing.T) {
			e := enginetest.NewWorld().Engine(t)
			s, _ := history(t, e, 8)
			compact(t, e, s)
			point := extend(t, e, s, 6)[5]
			compact(t, e, open(t, e, s, api.CreateFork{Turn: point, Mode: tc.mode}).ID)
			f := open(t, e, s, api.CreateFork{Turn: point, Mode: "summary"})
			if got := ownCompactions(t, e, f.ID); !slices.Equal(got, []string{tc.want}) {
				t.Errorf("compactions %v, want one, %s", got, tc.want)
			}
			enginetest.Verified(t, e)
		})
	}
}

// A fork looks at 64 compactions of other branches at most, those that it can't use
// included.
func TestForkLooksAt64Compactions(t *testing.T) {
	for unusable, want := range map[int]string{63: "reused", 64: "manual"} {
		t.Run(fmt.Sprint(unusable), func(t *testing.T) {
			e := enginetest.NewWorld().Engine(t)
			s, ids := history(t, e, 8)
			// A fork looks at those that cover the most first, and at those that cover as
			// much in the order of their sessions' ids: at this one last.
			compact(t, e, open(t, e, s, api.CreateFork{ID: turns.ID{0: 0x7f, 15: 1}, Turn: ids[7]}).ID)
			for range unusable {
				f := open(t, e, s, api.CreateFork{Turn: ids[7]}).ID
				r := api.RecordCompaction{FirstKept: ids[7], Summary: "of another system"}
				enginetest.Must(e.Compactions.Record(t.Context(), enginetest.Alice, f, r, enginetest.JSON(r)))(t)
			}
			f := open(t, e, s, api.CreateFork{Turn: ids[7], Mode: "summary"})
			if got := ownCompactions(t, e, f.ID); !slices.Equal(got, []string{want}) {
				t.Errorf("compactions %v, want one, %s", got, want)
			}
		})
	}
}

// The context with the reused summary may fill the target of the fork's policy, and
// not exceed it.
func TestReusedSummaryMayFillTheTarget(t *testing.T) {
	for over, want := range []string{"reused", "manual"} {
		e := enginetest.NewWorld().Engine(t)
		s, ids := history(t, e, 8)
		compact(t, e, open(t, e, s, api.CreateFork{Turn: ids[7]}).ID)
		f := open(t, e, s, api.CreateFork{Turn: ids[7], Mode: "summary"})
		size := int(enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, f.ID, api.GetContext{}))(t).Tokens)
		target := &api.Policy{Name: "nexus", Set: turns.Raw(fmt.Sprintf(`{"target_tokens":%d}`, size-over))}
		f = open(t, e, s, api.CreateFork{Turn: ids[7], Mode: "summary", Policy: target})
		if got := ownCompactions(t, e, f.ID); !slices.Equal(got, []string{want}) {
			t.Errorf("a context of %d tokens, a target of %d: compactions %v, want one, %s", size, size-over, got, want)
		}
	}
}

// A reused summary is sealed under the keys of the fork and of the ancestors that its
// text comes from. The key of the branch that made it is not needed to read it.
func TestReusedSummaryIsSealedUnderTheForksAncestors(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	root, ids := history(t, e, 2)
	parent := open(t, e, root, api.CreateFork{Turn: ids[1]}).ID
	point := extend(t, e, parent, 6)[5]
	branch := open(t, e, parent, api.CreateFork{Turn: point}).ID
	compact(t, e, branch)
	f := open(t, e, parent, api.CreateFork{Turn: point, Mode: "summary"}).ID
	list := enginetest.Must(e.History.ListCompactions(t.Context(), enginetest.Alice, f, api.ListCompactions{}))(t).Turns
	if len(list) != 1 || list[0].Compaction.Mode != "reused" {
		t.Fatalf("%s", enginetest.JSON(list))
	}
	_, ev, err := e.Reader.TurnEvent(turns.Ref{Session: f, Turn: list[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	want := []turns.ID{root, parent}
	slices.SortFunc(want, turns.ID.Compare)
	want = append([]turns.ID{f}, want...)
	if !slices.Equal(ev.Keys, want) {
		t.Errorf("sealed under %v, want root, parent and fork: %v (the other branch is %s)", ev.Keys, want, branch)
	}
	enginetest.Verified(t, e)
}

func TestForkIsRefused(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, ids := history(t, e, 1)
	other := enginetest.Create(t, e, 0, "nexus")
	foreign := enginetest.Add(t, e, other.ID, enginetest.Say("q", "a")).ID
	bob := enginetest.Alice
	bob.Agent = "bob"
	for name, tc := range map[string]struct {
		caller reader.Caller
		r      api.CreateFork
		want   api.Code
	}{
		"by the operator":          {enginetest.Operator, api.CreateFork{Turn: ids[0]}, api.Denied},
		"of another agent":         {bob, api.CreateFork{Turn: ids[0]}, api.NotFound},
		"at no turn of its path":   {enginetest.Alice, api.CreateFork{Turn: foreign}, api.NotFound},
		"in a mode that is none":   {enginetest.Alice, api.CreateFork{Turn: ids[0], Mode: "some"}, api.Malformed},
		"under a policy of no one": {enginetest.Alice, api.CreateFork{Turn: ids[0], Policy: &api.Policy{Name: "none"}}, api.Malformed},
	} {
		tc.r.ID = enginetest.ID(t)
		if _, err := e.Forks.Fork(t.Context(), tc.caller, s, tc.r, enginetest.JSON(tc.r)); enginetest.Code(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
		if _, err := e.Reader.Get(t.Context(), enginetest.Operator, tc.r.ID, api.Read{}); enginetest.Code(err) != api.NotFound {
			t.Errorf("%s: the fork is stored: %v", name, err)
		}
	}
}

// The same id with another request opens no second fork and answers with none.
func TestForkIDOfAnotherRequestIsRefused(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, ids := history(t, e, 2)
	r := api.CreateFork{ID: enginetest.ID(t), Turn: ids[0]}
	open(t, e, s, r)
	r.Turn = ids[1]
	if _, err := e.Forks.Fork(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r)); enginetest.Code(err) != api.IDReused {
		t.Errorf("%v, want %s", err, api.IDReused)
	}
}

// Each append of a fork fails once in both ways. The retry opens one fork.
func TestForkIsStoredOnceWhateverTheLogDoes(t *testing.T) {
	for _, fault := range []ledgertest.Fault{ledgertest.Persisted, ledgertest.Lost} {
		w := enginetest.NewWorld()
		e := w.Engine(t)
		s, ids := history(t, e, 8)
		f := new(ledgertest.Faults)
		e.Reader.Log = ledgertest.Flaky(w.Log, f)
		f.Script(fault, 0, fault)
		r := api.CreateFork{ID: enginetest.ID(t), Turn: ids[7], Mode: "summary"}
		for range 3 {
			_, _ = e.Forks.Fork(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r))
		}
		open(t, e, s, r)
		if got := ownCompactions(t, e, r.ID); !slices.Equal(got, []string{"manual"}) {
			t.Errorf("fault %v: compactions %v, want one, manual", fault, got)
		}
		enginetest.Verified(t, e)
	}
}
