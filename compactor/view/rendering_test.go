package view_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/compactortest"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// hooked is a counter that calls a function when it counts the notice of a call that waits.
type hooked struct {
	tokens.Counter
	waits func()
}

func (h hooked) Message(m *turns.Message) uint64 {
	if h.waits != nil && m.Role == turns.Tool && string(m.Parts[0].Response) == `"[no result of the call is here as yet]"` {
		h.waits()
	}
	return h.Counter.Message(m)
}

// TestTwoPathsGoOnFromOneRendering: two branches of a session are rendered from the state
// of one path, at once. Neither shows the late result of the other.
func TestTwoPathsGoOnFromOneRendering(t *testing.T) {
	w := compactortest.NewSession()
	must(t, w.Turn(user("go"), says("", "a")))
	must(t, w.Turn(user("never mind"), says("", "b", "c")))
	must(t, w.Turn([]turns.Message{tool(result("b", "1"), result("a", "late"))}, nil))
	must(t, w.Turn([]turns.Message{{Role: turns.User, Parts: []turns.Part{result("c", "2"), turns.TextPart("go on")}}}, says("", "d", "e")))
	_, shared, err := view.RenderAfter(nil, w.Path(), approx)
	must(t, err)
	if shared == nil {
		t.Fatal("no path can go on from the rendering")
	}
	must(t, w.Turn([]turns.Message{tool(result("d", "3"), result("a", "of the first branch"))}, nil))
	one, two := w.Path(), w.Path()
	two.Halves = slices.Clone(two.Halves)
	two.Halves[len(two.Halves)-1].Messages = []turns.Message{tool(result("d", "3"), result("a", "of the second branch"))}
	want, err := view.Render(one, approx)
	must(t, err)
	c := hooked{approx, func() {
		_, _, err := view.RenderAfter(shared, two, approx)
		must(t, err)
	}}
	got, _, err := view.RenderAfter(shared, one, c)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-rendered alone, +while the other branch was rendered):\n%s", diff)
	}
}

// A path whose compaction covers all of it has no halves. A path that goes on from its
// rendering shows the replacement once.
func TestAPathGoesOnFromARenderingWithoutHalves(t *testing.T) {
	w := compactortest.NewSession()
	must(t, w.Turn(user("go"), says("done")))
	p := w.Path()
	span := p.Span(len(p.Halves))
	span.SawThrough = w.Head.Ref
	must(t, w.Commit(span, turns.CompactionBody{Replacement: []turns.Message{turns.TextMessage(turns.System, "a summary")}}))
	p = w.Path()
	if len(p.Halves) > 0 {
		t.Fatalf("%d halves behind the compaction", len(p.Halves))
	}
	_, before, err := view.RenderAfter(nil, p, approx)
	must(t, err)
	force := p.InForce
	must(t, w.Turn(user("go on"), says("yes")))
	p = w.Path()
	p.InForce = force // as the engine shares it
	want, err := view.Render(p, approx)
	must(t, err)
	got, _, err := view.RenderAfter(before, p, approx)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-rendered alone, +after a rendering without halves):\n%s", diff)
	}
}

// Paths that are rendered at once go on from one rendering: some add nothing, some leave
// calls open, and no two add the same. Each is as if it were rendered alone. Run with -race it
// also shows that none writes what another reads.
func TestPathsGoOnFromOneRenderingAtOnce(t *testing.T) {
	w := compactortest.NewSession()
	for i := range 5 {
		must(t, w.Turn(user(fmt.Sprint("question ", i)), says("answer")))
	}
	must(t, w.Turn(user("go"), says("", "a")))
	first := w.Path()
	_, shared, err := view.RenderAfter(nil, first, approx)
	must(t, err)
	must(t, w.Turn([]turns.Message{tool(result("a", "1"))}, says("", "b")))
	must(t, w.Turn([]turns.Message{tool(result("b", "2"))}, says("done")))
	last := w.Path()
	var wg sync.WaitGroup
	for n := range 24 {
		p := last
		p.Halves = slices.Clone(last.Halves[:len(first.Halves)+n%5]) // 0: nothing is added
		for i := len(first.Halves); i < len(p.Halves); i++ {
			if h := &p.Halves[i]; h.Half == turns.ResponseHalf {
				h.Messages = append(slices.Clip(h.Messages), turns.TextMessage(turns.User, fmt.Sprint("of path ", n)))
				h.Counts = nil
			}
		}
		want, err := view.Render(p, approx)
		must(t, err)
		wg.Go(func() {
			before := shared
			for range 3 { // what went on is gone on from too
				got, next, err := view.RenderAfter(before, p, approx)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("path %d (-alone, +at once): %v\n%s", n, err, diff)
				}
				if next != nil {
					before = next
				}
			}
		})
	}
	wg.Wait()
}
