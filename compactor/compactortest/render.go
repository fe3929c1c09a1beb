package compactortest

import (
	"fmt"

	"pgregory.net/rapid"

	"nexus/compactor/view"
)

// Render renders p and checks the result: pairs, determinism, and that tokens and halves
// add up.
func Render(t rapid.TB, p view.Path) view.Context {
	cx, err := view.Render(p, p.Counter)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckPairs(cx.Messages); err != nil {
		t.Fatalf("%v in\n%s", err, Show(cx))
	}
	again, _ := view.Render(p, p.Counter)
	if cx.Fingerprint() != again.Fingerprint() {
		t.Fatal("two renderings differ")
	}
	total := uint64(0)
	for i, m := range cx.Messages {
		total += p.Counter.Message(&m)
		if o := cx.Origins[i]; o < 0 || o >= len(cx.Sources) {
			t.Fatalf("message %d comes from source %d of %d", i, o, len(cx.Sources))
		}
	}
	sum, halves := uint64(0), 0
	for _, s := range cx.Sources {
		sum += s.Tokens
		switch s.Status {
		case view.Verbatim, view.Elided, view.Trimmed, view.Cleared:
			halves++
		}
	}
	if total != cx.Tokens || sum != total || halves != len(p.Halves) {
		t.Fatalf("tokens %d, of messages %d, of sources %d; %d of %d halves are sources", cx.Tokens, total, sum, halves, len(p.Halves))
	}
	return cx
}

func Show(cx view.Context) (out string) {
	for i, m := range cx.Messages {
		out += fmt.Sprintf("%d %s:", i, m.Role)
		for _, p := range m.Parts {
			out += fmt.Sprintf(" %s %s", p.Type, p.ID)
		}
		out += "\n"
	}
	return out
}
