package extractive

import (
	"strings"
	"testing"

	"nexus/compactor/facts"
	"nexus/compactor/summary"
	"nexus/turns"
)

// What was added below a summary when it was committed are facts, and no task.
func TestLateLinesAreRecalledAsFacts(t *testing.T) {
	previous := "TASK\n- Fix the broker. [t1]" + facts.LateHead + "\n- The broker refuses more than retryQuota = 17 messages at once. [t2]"
	for name, previous := range map[string]string{"ours": previous, "a model's": strings.Replace(previous, "TASK\n- ", "The task: ", 1)} {
		in := summary.Input{Previous: previous, MaxTokens: 400, Halves: []summary.HalfTurn{
			{Depth: 9, Half: turns.MessagesHalf, Messages: []turns.Message{turns.TextMessage(turns.User, "Go on with the broker, please.")}},
		}}
		out, err := New(Config{}).Summarize(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		before, facts, _ := strings.Cut(out.Text, "FACTS")
		if strings.Contains(out.Text, "USED SINCE") || strings.Contains(before, "retryQuota") || !strings.Contains(facts, "retryQuota") {
			t.Errorf("%s:\n%s", name, out.Text)
		}
	}
}
