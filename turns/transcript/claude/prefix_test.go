package claude

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// claudeSteps reads without the checks of readClaude, for many cuts.
func claudeSteps(t rapid.TB, b []byte, final bool) (steps []transcript.Step) {
	t.Helper()
	steps, _ = transcripttest.ReadAll(t, Read(bytes.NewReader(b), transcript.Options{Final: final}))
	return steps
}

// claudeDigests are the bytes of each step, shortened, for comparing many.
func claudeDigests(t rapid.TB, steps []transcript.Step) []string {
	t.Helper()
	out := make([]string, len(steps))
	for i, s := range steps {
		b, err := turns.EncodeJSON(s)
		if err != nil {
			t.Fatal(err)
		}
		h := turns.HashEvent(b)
		out[i] = string(h[:])
	}
	return out
}

func isPrefix(short, long []string) bool {
	return len(short) <= len(long) && slices.Equal(short, long[:len(short)])
}

// A file cut at any line, or inside one, gives a prefix of the steps of the whole
// before its end is known.
func TestClaudePrefix(t *testing.T) {
	for _, file := range claudeFiles(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		final := claudeSteps(t, b, true)
		whole := claudeDigests(t, final)
		var cuts []int
		for i, c := range b {
			if c == '\n' {
				cuts = append(cuts, i, i+1, i-(i*7)%40-1)
			}
		}
		every := max(1, len(cuts)*len(b)/(6<<20)) // sample the big ones: 6 MB of reading a file
		n := 0
		last := 0
		for i, cut := range cuts {
			if i%every != 0 {
				continue
			}
			n++
			got := claudeDigests(t, transcripttest.StepsBeforeEnd(t, Format(), b[:max(cut, 0)]))
			if !isPrefix(got, whole) {
				t.Fatalf("%s: cut at byte %d: %d steps, not a prefix of the whole file's %d", shortName(file), cut, len(got), len(whole))
			}
			last = max(last, len(got))
		}
		t.Logf("%s: %d cuts, %d steps at most, %d with Final", shortName(file), n, last, len(final))
	}
}

// Five copies of one growing session: each gives the steps of the one before, and more.
func TestClaudeGrowing(t *testing.T) {
	names := []string{"8e-ce5fc12e98-0", "2c-1a2a1e88ce-0", "bd-e5096363d6-2", "bd-e5096363d6-0", "ba-59c426c910-0"}
	files := make(map[string]string)
	for _, f := range claudeFiles(t) {
		files[strings.TrimPrefix(shortName(f), "claude-code-entire-cli/")] = f
	}
	var before []transcript.Step
	for _, name := range names {
		b, err := os.ReadFile(files[name])
		if err != nil {
			t.Fatal(err)
		}
		got := claudeSteps(t, b, false)
		if again := claudeSteps(t, b, false); !cmp.Equal(claudeDigests(t, got), claudeDigests(t, again)) {
			t.Errorf("%s: two readings differ", name)
		}
		if err := transcripttest.NewStepIndex(got).Contains(before); err != nil || len(got) <= len(before) {
			t.Errorf("%s: %d steps do not extend the %d before: %v", name, len(got), len(before), err)
		}
		t.Logf("%s: %d steps, %d new", name, len(got), len(got)-len(before))
		before = got
	}
}
