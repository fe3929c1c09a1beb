package render

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nexus/turns"
)

// TestCopiesOfIDsGoOnApart: copies that share layers assign what copies of all ids assign.
func TestCopiesOfIDsGoOnApart(t *testing.T) {
	fits := func(id string) bool { return len(id) < 6 || strings.HasPrefix(id, "call_") }
	rapid.Check(t, func(t *rapid.T) {
		shared, apart := []*wireIDs{{fits: fits}}, []*wireIDs{{fits: fits}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(shared)-1).Draw(t, "which")
			if rapid.IntRange(0, 2).Draw(t, "copy") == 0 {
				c := shared[i].clone()
				of := apart[i].current
				shared, apart = append(shared, &c), append(apart, &wireIDs{fits: fits, current: idLayer{maps.Clone(of.used), maps.Clone(of.next)}})
				continue
			}
			var calls []*turns.Part
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				calls = append(calls, &turns.Part{ID: fmt.Sprint(rapid.SampledFrom([]string{"a", "b", "toolong"}).Draw(t, "id"), rapid.IntRange(0, 9).Draw(t, "number"))})
			}
			got, want := shared[i].assign(calls), apart[i].assign(calls)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("copy %d: %q, want %q", i, got, want)
			}
		}
		for i, w := range shared {
			if len(w.layers) > 8 {
				t.Fatalf("copy %d has %d layers", i, len(w.layers))
			}
		}
	})
}
