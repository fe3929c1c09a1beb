package paths_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// Paths that are loaded at once, to turns one behind the other, go on from the one that is kept; so
// do a load that fails half way and paths that were loaded before it. Each is as an engine
// loads it that keeps nothing. Run with -race it also shows that none writes what another reads.
func TestPathsLoadedAtOnceGoOnFromOne(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	var r api.CreateSession
	r.Policy = &api.Policy{Name: "balanced", Set: turns.Raw(`{"max_messages":0}`)}
	id := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, r, nil))(t).ID
	var heads []lineage.Node
	for i := range 16 {
		turn := enginetest.Say(fmt.Sprint("question ", i), "answer")
		if i%3 == 1 {
			turn = enginetest.CallTool(fmt.Sprint("call-", i))
		}
		at := enginetest.Add(t, e, id, turn).ID
		_, head, err := e.Reader.SessionAt(t.Context(), enginetest.Alice, id, at, api.Read{})
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, head)
	}
	s := enginetest.Must(e.Reader.FindSession(t.Context(), enginetest.Alice, id, true))(t)
	_, set, err := e.Reader.SettingsInForce(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	pol := enginetest.Must(policy.Resolve(set.Policy))(t)
	load := func(ctx context.Context, e *engine.Engine, head lineage.Node) (view.Path, string, error) {
		p, err := e.Loader.Load(ctx, s, &set, pol, head)
		if err != nil {
			return p, "", err
		}
		cx, err := e.Loader.Render(p)
		return p, shown(p) + string(enginetest.JSON(cx.Messages)), err
	}
	want := make([]string, len(heads))
	for i, head := range heads {
		if _, want[i], err = load(t.Context(), w.EngineOver(e.Reader.Projections), head); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		other := w.EngineOver(e.Reader.Projections)
		first, _, err := load(t.Context(), other, heads[5])
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := load(ended, other, heads[9]); !errors.Is(err, ledger.ErrUnavailable) {
			t.Fatalf("a load whose request has ended: %v", err)
		}
		var wg sync.WaitGroup
		for i := 5; i < len(heads); i++ {
			wg.Go(func() {
				if _, got, err := load(t.Context(), other, heads[i]); got != want[i] || err != nil {
					t.Errorf("turn %d: %v\n%s\nwant\n%s", i, err, got, want[i])
				}
			})
		}
		wg.Wait()
		if got := shown(first); got != want[5][:len(got)] {
			t.Errorf("the first path is another since:\n%s\nwant\n%s", got, want[5])
		}
	}
}

// shown is all that the halves of a path hold.
func shown(p view.Path) string {
	return fmt.Sprintf("%d halves: %v\n", len(p.Halves), enginetest.JSON(p.Halves))
}
