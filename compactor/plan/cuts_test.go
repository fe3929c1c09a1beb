package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/turns"
)

// TestOpenCallsTwin: LegalCuts decides which calls are open as ledger.Calls does.
func TestOpenCallsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var next compactortest.RandomTurns
		g := compactortest.NewSession()
		var want []bool
		for range rapid.IntRange(1, 30).Draw(t, "turns") {
			before, from := next.Open, len(g.Halves)
			if err := g.Turn(next.Next(t, 10)); err != nil {
				t.Fatal(err)
			}
			for i, h := range g.Halves[from:] {
				open := before
				if i > 0 || h.Half == turns.ResponseHalf {
					folded, err := before.After(g.Halves[from].Messages, nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					open = folded.Open
				}
				want = append(want, len(open) == 0)
			}
		}
		asked := false
		if last := g.Halves[len(g.Halves)-1]; last.Half == turns.MessagesHalf {
			for _, m := range last.Messages {
				asked = asked || m.Role == turns.User
			}
		}
		want = append(want, len(next.Open) == 0 && !asked)
		if diff := cmp.Diff(want, plan.LegalCuts(g.Halves)); diff != "" {
			t.Fatalf("legal cuts (-ledger +compactor):\n%s", diff)
		}
	})
}
