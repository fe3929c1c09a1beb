package compactor

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// grower appends random turns to a world.
type grower struct {
	*world
	compactortest.RandomTurns
}

func newGrower() *grower { return &grower{world: newWorld()} }

func (g *grower) grow(t *rapid.T, size int) {
	if err := g.Turn(g.Next(t, size)); err != nil {
		t.Fatal(err)
	}
}

// rendered returns the context at the head, checked.
func (g *grower) rendered(t rapid.TB) view.Context { return compactortest.Render(t, g.Path()) }

// TestCompactions grows random histories and compacts them whenever it is due,
// or asked for. After every step: coverage, pairs, budget, determinism.
func TestCompactions(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { grownAndCompacted(t, name) }) })
	}
}

func grownAndCompacted(t *rapid.T, name string) {
	pol, _ := policy.Builtin(name)
	g := newGrower()
	g.Policy = pol
	g.Limits.ContextWindow = rapid.SampledFrom([]uint64{2000, 8000, 32_000}).Draw(t, "window")
	size := int(g.Limits.ContextWindow / 20)
	for range rapid.IntRange(1, 80).Draw(t, "turns") {
		g.grow(t, size)
		cx := g.rendered(t)
		p := g.Path()
		trigger, due := plan.Due(p, pol, cx.Tokens)
		if !due && rapid.IntRange(0, 9).Draw(t, "asked") > 0 {
			continue
		}
		if !due {
			trigger.Kind = rapid.SampledFrom([]string{plan.TriggerManual, plan.TriggerOverflow, plan.TriggerThreshold}).Draw(t, "trigger")
		}
		opt := plan.Options{FromOriginals: rapid.IntRange(0, 5).Draw(t, "originals") == 0}
		if opt.FromOriginals {
			opt.Originals = g.Halves
		}
		pl, err := g.compact(pol, trigger.Kind, opt)
		if errors.Is(err, plan.ErrNothing) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		g.compacted(t, pol, p, pl, cx)
		if _, err := plan.New(g.Path(), pol, trigger, opt); !errors.Is(err, plan.ErrNothing) {
			t.Fatalf("the same plan again: %v, want %v", err, plan.ErrNothing)
		}
	}
}

// compacted checks what holds after each compaction.
func (g *grower) compacted(t rapid.TB, pol policy.Policy, before view.Path, pl *plan.Plan, was view.Context) {
	now := g.Path()
	body := g.Bodies[g.Head.Ref]
	if (len(pl.Covered) > 0 || pl.Kind != plan.Cover) && body.TokensAfter >= body.TokensBefore {
		t.Fatalf("no progress: %d tokens before, %d after", body.TokensBefore, body.TokensAfter)
	}
	if !plan.LegalCuts(before.Halves)[len(pl.Covered)] {
		t.Fatal("a call is open across the cut")
	}
	if len(now.Halves) != len(pl.Kept) || g.Head.Cut != pl.Cut {
		t.Fatalf("the ledger keeps %d halves from %d on, the plan %d from %d", len(now.Halves), g.Head.Cut, len(pl.Kept), pl.Cut)
	}
	for i := range pl.Kept {
		if pl.Kept[i].Ref != now.Halves[i].Ref || pl.Kept[i].Half != now.Halves[i].Half {
			t.Fatalf("half %d is kept as another", i)
		}
	}
	if now.Tokens() != body.TokensAfter {
		t.Fatalf("%d tokens after, the path has %d", body.TokensAfter, now.Tokens())
	}
	// Below the target, unless the newest part that can be kept is above it.
	s := plan.SizesOf(before, pol, pl.Trigger, 0)
	newest := len(before.Halves) - 1
	for legal := plan.LegalCuts(before.Halves); newest > 0 && !legal[newest]; newest-- {
	}
	cx := g.rendered(t)
	replacement := max(s.Summary, view.FrameTokens(pol, view.Quoted{})+plan.MinSummaryTokens) + s.Quotes
	if least := pl.Path.ShownFrom(newest); least+replacement <= s.Target && len(pl.Covered) > 0 {
		after := body.TokensAfter
		if body.Tier == plan.NoticeTier { // its words take what they take
			after = min(after, pl.TokensKept+pl.ReplacementBound())
		}
		if after > s.Target {
			t.Fatalf("%d tokens after, the target is %d and the newest part has %d", after, s.Target, least)
		}
		if err := Fit(now, cx, s.Budget); err != nil {
			t.Fatal(err)
		}
	}
	if err := Fit(now, cx, s.Budget); err != nil && Fit(before, was, s.Budget) == nil {
		t.Fatalf("it did fit, after the compaction it does not: %v", err)
	}
}

// TestRebase: a plan made on an older head is legal on a newer head, and nowhere else.
func TestRebase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pol, _ := policy.Builtin(rapid.SampledFrom(policy.Names()).Draw(t, "policy"))
		g := newGrower()
		g.Policy, g.Limits.ContextWindow = pol, 4000
		for range rapid.IntRange(2, 30).Draw(t, "before") {
			g.grow(t, 100)
		}
		pl, err := plan.New(g.Path(), pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
		if err != nil {
			t.Skip(err)
		}
		res, err := Run(t.Context(), pl, stubTiers, pl.Path.Counter, nil)
		if err != nil {
			t.Skip(err)
		}
		old := g.Path()
		for range rapid.IntRange(1, 10).Draw(t, "meanwhile") {
			g.grow(t, 100)
		}
		now, err := pl.Rebase(g.Path())
		if pl.Span.Call && errors.Is(err, plan.ErrStale) {
			t.Skip("the user spoke")
		}
		if err != nil {
			t.Fatal(err)
		}
		r := Resize(now, res)
		if err := g.compaction(r); err != nil {
			t.Fatal(err)
		}
		if p := g.Path(); p.Tokens() != r.Body.TokensAfter {
			t.Fatalf("%d tokens after, the path has %d", r.Body.TokensAfter, p.Tokens())
		}
		g.rendered(t)
		if _, err := pl.Rebase(g.Path()); !errors.Is(err, plan.ErrStale) {
			t.Fatalf("rebase under another compaction: %v, want %v", err, plan.ErrStale)
		}
		if len(pl.Covered) == 0 {
			return
		}
		short := old
		short.Halves = old.Halves[:len(pl.Covered)-1]
		if _, err := pl.Rebase(short); !errors.Is(err, plan.ErrStale) {
			t.Fatalf("rebase on a path without what is covered: %v, want %v", err, plan.ErrStale)
		}
	})
}

// TestToolLoop: one request, 200 calls, far longer than the window: each
// context fits, and no compaction waits for the loop to end.
func TestToolLoop(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			pol, _ := policy.Builtin(name)
			w := newWorld()
			w.Limits.ContextWindow, w.Policy = 16_000, pol
			must(t, w.Turn(user("fix it, "+words(50)), says("", "c0")))
			compactions, split := 0, 0
			for i := range 200 {
				ms := []turns.Message{tool(result(fmt.Sprintf("c%d", i), words(400)))}
				must(t, w.Turn(ms, nil)) // as an agent asks for its next context: results are in, the response is not
				cx, err := view.Render(w.Path(), pol.CounterOf())
				must(t, err)
				if trigger, due := plan.Due(w.Path(), pol, cx.Tokens); due {
					pl, err := w.compact(pol, trigger.Kind, plan.Options{})
					if errors.Is(err, plan.ErrNothing) && pol.Elide.Nudge != "" && plan.Fits(pol, w.Path(), cx.Tokens, pol.Budget(w.Limits)) {
						must(t, w.Turn(nil, says("next", fmt.Sprintf("c%d", i+1))))
						continue // it cuts only what does not fit shortened
					}
					must(t, err)
					compactions++
					if pl.Span.Split {
						split++
					}
					cx, err = view.Render(w.Path(), pol.CounterOf())
					must(t, err)
				}
				must(t, Fit(w.Path(), cx, pol.Budget(w.Limits)))
				must(t, checkPairs(cx.Messages))
				must(t, w.Turn(nil, says("next", fmt.Sprintf("c%d", i+1))))
			}
			if bound := 60 * max(1, tokens.Scale(pol.Counter)); compactions < 5 || float64(compactions) > bound {
				t.Errorf("%d compactions in a loop of 200 calls and 80,000 tokens in a window of 16,000", compactions)
			}
			t.Logf("%d compactions, %d inside a turn", compactions, split)
		})
	}
}
