package summary_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
)

// TXT-1: Our text holds what a published design quotes byte for byte, and the golden file is
// what the design's own file says.
func TestTemplatesQuoteTheDesigns(t *testing.T) {
	gsv, _ := policy.Builtin("gsv")
	for _, tc := range []struct {
		golden, seed string
		text         func() string
		whole        bool                // the golden text is all of ours
		inSeed       func(string) string // as the design's file writes it; nil: as it is
	}{
		{"spec-008.txt", "spec-008.md", templateText("spec-008"), true, pythonString},
		{"wolffish.txt", "wolffish.md", templateText("wolffish"), false, nil},
		{"gsv-summary.txt", "gsv.md", templateText("gsv"), false, nil},
		{"gsv-memories.txt", "gsv.md", templateText("gsv"), false, nil},
		{"gsv-unavailable.txt", "gsv.md", func() string { return strings.Replace(gsv.Notice, "{messages}", "N", 1) }, true, nil},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("../testdata/txt1", tc.golden))
			if err != nil {
				t.Fatal(err)
			}
			golden, ours := string(b), tc.text()
			if !strings.Contains(ours, golden) || (tc.whole && ours != golden) {
				t.Errorf("the design's\n%q\nis not ours:\n%q", golden, ours)
			}
			seed, err := os.ReadFile(filepath.Join("../../../shared/seeds", tc.seed))
			if err != nil {
				t.Skip("no published designs beside the project: ", tc.seed)
			}
			if tc.inSeed != nil {
				golden = tc.inSeed(golden)
			}
			if !strings.Contains(string(seed), golden) {
				t.Errorf("%s does not say\n%s", tc.seed, golden)
			}
		})
	}
}

func templateText(name string) func() string {
	return func() string {
		t, _ := summary.FindTemplate(name)
		return t.Text
	}
}

// pythonString is s as SPEC-008 writes it: adjacent string literals, one to a
// line, of which the last but one line ends a paragraph with two line feeds.
func pythonString(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line == "\n" {
			lines[len(lines)-1] += line
			continue
		}
		lines = append(lines, line)
	}
	for i, line := range lines {
		lines[i] = `    "` + strings.ReplaceAll(line, "\n", `\n`) + `"`
	}
	return "COMPACTION_PROMPT = (\n" + strings.Join(lines, "\n") + "\n)"
}
