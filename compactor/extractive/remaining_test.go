package extractive

import (
	"strings"
	"testing"

	"nexus/compactor/summary"
)

func TestDecisionsHoldNoExclamations(t *testing.T) {
	got := section(summarize(t, summary.Input{MaxTokens: 600, Halves: []summary.HalfTurn{
		asked(1, "Fix it."),
		answered(2, "Good catch! I'm going to look at the parser. I see the issue. The loop stops one byte early for every text."),
		answered(3, "Perfect!"),
		answered(4, "I’ll check the tokens of the lexer first."),
		answered(4, "Done."),
		answered(5, "I'm keeping the old format because clients depend on it."),
	}}), decisions)
	for _, s := range []string{"Good catch", "going to", "check the tokens", "Perfect", "Done."} {
		if strings.Contains(got, s) {
			t.Errorf("holds %q:\n%s", s, got)
		}
	}
	wants(t, got, "The loop stops one byte early", "because clients depend on it")
}

func TestTheReasonIsTakenBeforeWhatLeadsToIt(t *testing.T) {
	us := withoutFillers([]unit{{text: "I see the issue.", worth: 2}, {text: "The loop stops one byte early for every text.", worth: .5}})
	if len(us) != 2 || us[0].worth >= us[1].worth {
		t.Errorf("%+v", us)
	}
}

func TestRemainingNamesWhatIsInWorkAndWhatFailedLast(t *testing.T) {
	halves := []summary.HalfTurn{
		asked(1, "Show the initials of the user."),
		answered(2, "I run it.", call("1", "Bash", `{"command":"pnpm test NavUser"}`)),
		result(3, "1", "AssertionError: expected '' to be '??'\n1 failed | 6 passed", false),
	}
	first := summarize(t, summary.Input{Halves: halves, MaxTokens: 500})
	wants(t, section(first, remaining), inWork+"Show the initials of the user. [t1]", "failed last: $ pnpm test NavUser [t3]")
	// The next summary says what is open then.
	second := summarize(t, summary.Input{Previous: first, MaxTokens: 500, Halves: []summary.HalfTurn{
		answered(4, "", call("2", "Bash", `{"command":"pnpm test NavUser"}`)),
		result(5, "2", "7 passed", false),
		answered(6, "All initials are shown now."),
	}})
	if got := section(second, remaining); got != "" {
		t.Errorf("REMAINING is %q", got)
	}
	wants(t, section(second, progress), "pnpm test NavUser", "7 passed (before: failed: AssertionError: expected '' to be '??')")
}

func TestRemainingMarksWhatWasWrittenSince(t *testing.T) {
	got := section(summarize(t, summary.Input{MaxTokens: 500, Halves: []summary.HalfTurn{
		asked(1, "Split the README."),
		answered(2, "", call("1", "update_plan", `{"plan":[{"step":"Create docs/usage.md","status":"in_progress"},{"step":"Check the links","status":"pending"}]}`)),
		result(3, "1", "Plan updated", false),
		answered(4, "", call("2", "Write", `{"file_path":"/r/docs/usage.md","content":"x"}`)),
		result(5, "2", "done", false),
	}}), remaining)
	wants(t, got, "Create docs/usage.md (in progress) (since then written: /r/docs/usage.md)", "Check the links")
}

// A first request that stands beside the summary is in no section of it.
func TestRemainingNamesTheFirstRequestOfAnEarlierSummary(t *testing.T) {
	got := summarize(t, summary.Input{Previous: "DECISIONS\n- The cache is stale. [t2]", MaxTokens: 400, Halves: []summary.HalfTurn{
		answered(4, "", call("1", "Read", `{"file_path":"/r/a.go"}`)), result(5, "1", "package a", false),
	}})
	wants(t, section(got, remaining), inWork+"the first request")
}
