package extractive

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What is looked at before an expression, or in its place, never decides otherwise.
func TestQuickLooksDecideAsTheSlowOnes(t *testing.T) {
	pieces := rapid.SliceOf(rapid.SampledFrom([]string{"2026-11-30T12:00:01.5Z ", "T", "-", ":", "\t", " ", "FAIL", "FAILED a::", "--- FAIL: ", "not ok 1", "✗ ", "x > y", "1", "23", "\ufeff", "\n", "é", "T12:", "a/b.go", "index 0123456..7", "diff --git a/", "@@ -1"}))
	words := rapid.SampledFrom([]string{"a/b.go", "FAIL", "12-3", "x > y", "é-12", "b.go", "go", "2026"})
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(pieces.Draw(t, "pieces"), "")
		if logStamp.MatchString(line) && !mayHaveStamp(line) {
			t.Errorf("%q has a stamp", line)
		}
		if failedTest.MatchString(line) && !mayFailTest(line) {
			t.Errorf("%q is of a failed test", line)
		}
		if w := words.Draw(t, "word"); placesOf(line).contain(w) != contains(line, w) {
			t.Errorf("%q has %q: %v", line, w, contains(line, w))
		}
	})
}
