package terminal

import (
	"bytes"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
)

// A hash or a path longer than a line goes on under itself.
func TestRowsBreakLongWords(t *testing.T) {
	var out bytes.Buffer
	e := &Terminal{Out: &out, Width: 40}
	e.Rows(8)("hash", "%s", strings.Repeat("a", 70))
	for line := range strings.Lines(out.String()) {
		if n := lipgloss.Width(strings.TrimRight(line, "\n")); n > 40 {
			t.Errorf("%d cells: %s", n, line)
		}
	}
	if got := strings.Count(out.String(), "a"); got != 71 {
		t.Errorf("%d letters of 71 are left: %s", got, out.String())
	}
}
