package main

import (
	"bytes"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"nexus/ledger/api"
	"nexus/turns"
)

// A compaction that another system made has no policy and no tier; it was shown
// with an empty name, and twice as imported.
func TestBy(t *testing.T) {
	for _, tc := range []struct {
		k    api.Compaction
		want string
	}{
		{api.Compaction{Policy: "balanced", Tier: "extractive", Provenance: "nexus"}, "balanced, extractive"},
		{api.Compaction{Policy: "gsv", Tier: "llm", Model: "m\x1b[1m", Provenance: "nexus"}, "gsv, llm " + printable("m\x1b[1m")},
		{api.Compaction{Provenance: "imported"}, "imported"},
	} {
		if got := by(&tc.k); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// A line of the log says what a call was about, and never nothing at all.
func TestTurnLineShowsFirstArgument(t *testing.T) {
	call := func(args string) turns.Part {
		return turns.Part{Type: turns.ToolCall, ID: "c", Name: "Bash", Arguments: turns.Raw(args)}
	}
	for _, tc := range []struct {
		part turns.Part
		want string
	}{
		{call(`{"command":"go test ./...","timeout":10}`), "⇒ Bash(go test ./...)"},
		{call(`{"lines":[1,2],"path":"a"}`), "⇒ Bash(a)"},
		{call(`{"lines":[1,2]}`), "⇒ Bash([1,2])"},
		{call(`{}`), "⇒ Bash()"},
		{call(`"free text"`), "⇒ Bash(free text)"},
		{call(`{"a":"x\u001by"}`), "⇒ Bash(x\ufffdy)"},
		{turns.Part{Type: turns.Reasoning, Content: "hm"}, "⇒ (reasoning only)"},
	} {
		turn := api.Turn{Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{tc.part}}}
		if got := turnLine(&turn, 0); !strings.HasSuffix(ansi.Strip(got), tc.want) {
			t.Errorf("%q does not end with %q", got, tc.want)
		}
	}
	if got := ansi.Strip(turnLine(&api.Turn{Response: &turns.Message{}}, 0)); !strings.HasSuffix(got, "⇒ (empty)") {
		t.Errorf("an empty response is %q", got)
	}
}

// If another system's count of the tokens before a compaction is smaller than our count
// after it, history does not compare the two.
func TestChangeDoesNotCompareCounts(t *testing.T) {
	for _, tc := range []struct {
		before, after uint64
		want          string
	}{{60_364, 14_657, "60,364 → 14,657 tokens"}, {60_364, 114_657, "114,657 tokens left"}} {
		if got := change(&api.Compaction{TokensBefore: tc.before, TokensAfter: tc.after}); got != tc.want {
			t.Errorf("%d and %d: %q, want %q", tc.before, tc.after, got, tc.want)
		}
	}
}

// A hash or a path longer than a line goes on under itself.
func TestRowsBreakLongWords(t *testing.T) {
	var out bytes.Buffer
	e := &env{out: &out, width: 40}
	e.rows(8)("hash", "%s", strings.Repeat("a", 70))
	for line := range strings.Lines(out.String()) {
		if n := lipgloss.Width(strings.TrimRight(line, "\n")); n > 40 {
			t.Errorf("%d cells: %s", n, line)
		}
	}
	if got := strings.Count(out.String(), "a"); got != 71 {
		t.Errorf("%d letters of 71 are left: %s", got, out.String())
	}
}
