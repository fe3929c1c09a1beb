package summary

import (
	"strings"
	"testing"

	"nexus/turns"
)

// TestSurvivalOfGroupedPaths: a path survives in a summary that names its folder
// and its file on one line, and only there.
func TestSurvivalOfGroupedPaths(t *testing.T) {
	covered := []HalfTurn{{Messages: []turns.Message{turns.TextMessage(turns.User, "see src/a/one.go, src/a/two.go and src/b/three.go; run 4711")}}}
	for _, c := range []struct {
		summary     string
		paths, nums string
	}{
		{"- under src/a: one.go two.go", `"paths":{"total":3,"kept":2}`, `"numbers":{"total":1,"kept":0}`},
		{"under src/a: one.go\nunder src/b: two.go three.go 4711", `"paths":{"total":3,"kept":2}`, `"numbers":{"total":1,"kept":1}`},
		{"src/a one\ntwo.go", `"paths":{"total":3,"kept":0}`, `"numbers":{"total":1,"kept":0}`},
		{"src/b/three.go", `"paths":{"total":3,"kept":1}`, `"numbers":{"total":1,"kept":0}`},
	} {
		got := string(Survival(covered, nil, []turns.Message{turns.TextMessage(turns.User, c.summary)}))
		if !strings.Contains(got, c.paths) || !strings.Contains(got, c.nums) {
			t.Errorf("%q: %s, want %s and %s", c.summary, got, c.paths, c.nums)
		}
	}
}
