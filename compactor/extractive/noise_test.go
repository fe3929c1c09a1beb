package extractive

import (
	"strings"
	"testing"

	"nexus/compactor/summary"
	"nexus/turns"
)

func TestFactsHoldNoFramesOfTools(t *testing.T) {
	system := summary.HalfTurn{Depth: 1, Half: turns.MessagesHalf, Messages: []turns.Message{
		turns.TextMessage(turns.System, "Use the skill at skills/imagegen/SKILL.md. "+strings.Repeat("Be careful, and mind tool_search. ", 100)),
	}}
	got := summarize(t, summary.Input{MaxTokens: 900, Halves: []summary.HalfTurn{
		system,
		asked(1, "Fix it."),
		answered(2, "", call("1", "exec_command", `{"cmd":"git diff","yield_time_ms":10000,"max_output_tokens":6000}`)),
		result(3, "1", "Chunk ID: fe350f\nWall time: 0.0413 seconds\nProcess exited with code 0\nOriginal token count: 39049\nOutput:\n"+
			"diff --git a/internal/plan.go b/internal/plan.go\nindex 854fb83..cd6f09b 100644\n--- a/internal/plan.go\n+++ b/internal/plan.go\n@@ -2247,7 +2249,7 @@ func\n"+
			"+\treturn errMissingParent\n\x1b[31m\x1b[1mAssertionError\x1b[22m: expected 'x_y' to be 'z_y'", false),
	}})
	for _, noise := range []string{"yield_time_ms", "max_output_tokens", "fe350f", "0.0413", "39049", "854fb83", "cd6f09b", "2247", "a/internal", "1mAssertion", "imagegen", "tool_search"} {
		if strings.Contains(got, noise) {
			t.Errorf("holds %q:\n%s", noise, got)
		}
	}
	wants(t, got, "internal/plan.go", "errMissingParent", "AssertionError")
}

func TestShortTextOfTheSystemGivesFacts(t *testing.T) {
	got := summarize(t, summary.Input{MaxTokens: 300, Halves: []summary.HalfTurn{
		asked(1, "Fix it."),
		{Depth: 2, Half: turns.MessagesHalf, Messages: []turns.Message{turns.TextMessage(turns.System, "The ticket is now TCK-48213.")}},
	}})
	wants(t, got, "TCK-48213")
}
