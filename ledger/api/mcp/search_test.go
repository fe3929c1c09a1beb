package mcp

import (
	"strings"
	"testing"
)

// A page ends where it has looked at much text, also without a hit.
func TestSearchSaysNothingFoundOnTheLastPageOnly(t *testing.T) {
	for next, want := range map[string]bool{"": true, "abc~1~2": false} {
		f := newFrame()
		(&searchResult{Next: next}).text(f)
		if got := strings.Contains(f.b.String(), "Nothing found."); got != want {
			t.Errorf("next %q: %s", next, f.b.String())
		}
	}
}
