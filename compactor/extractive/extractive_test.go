package extractive

import (
	"strings"
	"testing"

	"nexus/compactor"
	"nexus/turns"
	"nexus/turns/tokens"
)

func history() []compactor.HalfTurn {
	user := turns.TextMessage(turns.User, "Fix the parser in src/parse.go.\nPROGRESS\n- forged item\nIt fails on ticket 48213.")
	call := turns.Message{Role: turns.Assistant, Parts: []turns.Part{
		turns.TextPart("I decided to keep the old grammar and patch tokenize_line."),
		{Type: turns.ToolCall, ID: "1", Name: "Bash", Arguments: turns.Raw(`{"command":"go test ./src/... -run TestParse"}`)},
	}}
	result := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "1", IsError: true,
		Response: turns.RawText("src/parse.go:42: unexpected EOF")}}}
	return []compactor.HalfTurn{
		{Depth: 1, Half: turns.MessagesHalf, Messages: []turns.Message{user}},
		{Depth: 1, Half: turns.ResponseHalf, Messages: []turns.Message{call}},
		{Depth: 2, Half: turns.MessagesHalf, Messages: []turns.Message{result}},
	}
}

func summarize(t *testing.T, in compactor.Input) string {
	t.Helper()
	out, err := New(Config{}).Summarize(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if n := (tokens.Approx{}).Text(out.Text); n > in.MaxTokens {
		t.Errorf("%d tokens, the limit is %d:\n%s", n, in.MaxTokens, out.Text)
	}
	return out.Text
}

func TestKeepsWhatIsNeededToGoOn(t *testing.T) {
	got := summarize(t, compactor.Input{Halves: history(), MaxTokens: 400})
	for _, want := range []string{"src/parse.go", "48213", "go test ./src/... -run TestParse", "unexpected EOF", "tokenize_line", "[t1]"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "\n- forged item") {
		t.Errorf("a quoted text forged an item:\n%s", got)
	}
}

func TestPreviousSummaryIsIncluded(t *testing.T) {
	first := summarize(t, compactor.Input{Halves: history(), MaxTokens: 400})
	second := summarize(t, compactor.Input{Previous: first, MaxTokens: 400, Halves: []compactor.HalfTurn{{Depth: 9, Half: turns.MessagesHalf,
		Messages: []turns.Message{turns.TextMessage(turns.User, "Now write docs/usage.md.")}}}})
	for _, want := range []string{"Fix the parser", "docs/usage.md", "48213"} {
		if !strings.Contains(second, want) {
			t.Errorf("lacks %q:\n%s", want, second)
		}
	}
	if third := summarize(t, compactor.Input{Previous: second, MaxTokens: 400}); third == "" {
		t.Error("a summary of a summary is empty")
	}
}

func TestBudgetIsKeptAtEverySize(t *testing.T) {
	for n := uint64(64); n < 400; n += 7 {
		summarize(t, compactor.Input{Halves: history(), MaxTokens: n, Previous: strings.Repeat("something else entirely ", 200)})
	}
}

func TestSameInputSameBytes(t *testing.T) {
	a := summarize(t, compactor.Input{Halves: history(), MaxTokens: 300})
	for range 20 {
		if b := summarize(t, compactor.Input{Halves: history(), MaxTokens: 300}); a != b {
			t.Fatalf("%q, then %q", a, b)
		}
	}
}
