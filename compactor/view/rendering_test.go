package view_test

import (
	"slices"
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
