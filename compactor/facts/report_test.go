package facts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/summary"
	"nexus/turns"
)

// TestNamesOfText compares all names that a survival report finds in a text.
func TestNamesOfText(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Fact
	}{
		{"plain words of prose are none", nil},
		{"a/b aa/b /x/ 1/2 /usr/", []Fact{{"paths", "aa/b"}, {"paths", "/usr/"}}},
		{"12 123 1.5 12.5 1-2-3", []Fact{{"numbers", "123"}, {"numbers", "12.5"}, {"numbers", "1-2-3"}}},
		{"ab1 abc1 ab_c a_bc x_y abc.d", []Fact{{"identifiers", "abc1"}, {"identifiers", "ab_c"}, {"identifiers", "a_bc"}, {"identifiers", "abc.d"}}},
		{"camelCase Camel CAMEL cAMEL CAMELc aB aBC ABc", []Fact{{"identifiers", "camelCase"}, {"identifiers", "CAMELc"}, {"identifiers", "ABc"}}},
		{strings.Repeat("a1", 100) + " " + strings.Repeat("a1", 101), []Fact{{"identifiers", strings.Repeat("a1", 100)}}},
	} {
		var got []Fact
		EachName(c.text, func(f Fact) { got = append(got, f) })
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%.60q: -want +got\n%s", c.text, d)
		}
	}
}

func TestCommandOfArguments(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"make all"}`:             "make all",
		`{"command": "make all","cwd":"/x"}`: "make all",
		`{"command":"say \"hi\" now"}`:       `say "hi" now`,
		`{"command":"one\ntwo"}`:             "one",
		`{"command":"\n  two words"}`:        "two words",
		`{"command":["make","all"]}`:         "make all",
		`{"command":"open`:                   "",
		`{"command":"open\"`:                 "",
		`{"command":"open\\"`:                "",
		`{"command":`:                        "",
		`{"cmd":"make all"}`:                 "make all",
	} {
		got := strings.Join(callOf(&turns.Part{Type: turns.ToolCall, Arguments: turns.Raw(args)}).commands, "; ")
		if got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// The whole report: facts of covered turns, by kind, and those that a kept turn
// or the replacement still holds.
func TestSurvivalReport(t *testing.T) {
	call := turns.Part{Type: turns.ToolCall, ID: "1", Name: "Bash", Arguments: turns.Raw(`{"command":"go test ./pkg"}`)}
	answer := turns.Part{Type: turns.ToolCallResponse, ID: "1", Response: turns.RawText("panic: out of range 4711")}
	object := turns.Part{Type: turns.ToolCallResponse, ID: "1", Response: turns.Raw(`{"file":"src/c.go"}`)}
	covered := []summary.HalfTurn{
		{Half: turns.MessagesHalf, Messages: []turns.Message{turns.TextMessage(turns.User, "see src/a.go, src/b.go and parse_line")}},
		{Messages: []turns.Message{{Role: turns.Assistant, Parts: []turns.Part{call, answer, object}}}},
	}
	kept := []summary.HalfTurn{{Messages: []turns.Message{turns.TextMessage(turns.User, "now src/b.go and other.go")}}}
	got := string(Survival(covered, kept, []turns.Message{turns.TextMessage(turns.User, "parse_line\n- $ go test ./pkg\n4711")}))
	want := `{"user":{"total":1,"kept":0},"errors":{"total":1,"kept":0},"commands":{"total":1,"kept":1},"paths":{"total":4,"kept":2},"identifiers":{"total":1,"kept":1},"numbers":{"total":1,"kept":1}}`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	var b strings.Builder
	for i := range maxFacts + 1 {
		fmt.Fprintf(&b, "name_%d ", i)
	}
	many := []summary.HalfTurn{{Messages: []turns.Message{turns.TextMessage(turns.User, b.String())}}}
	if got := string(Survival(many, nil, nil)); !strings.Contains(got, fmt.Sprintf(`"identifiers":{"total":%d,`, maxFacts)) || !strings.Contains(got, `"partial":true`) {
		t.Errorf("of one fact more than the bound: %s", got)
	}
	exactly := strings.Join(strings.Fields(b.String())[:maxFacts], " ")
	many = []summary.HalfTurn{{Messages: []turns.Message{turns.TextMessage(turns.User, exactly+" name_0")}}}
	if got := string(Survival(many, nil, nil)); strings.Contains(got, "partial") {
		t.Errorf("of as many facts as the bound: %s", got)
	}
}
