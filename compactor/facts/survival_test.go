package facts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/summary"
	"nexus/turns"
)

// TestSurvivalOfGroupedPaths: a path survives in a summary that names its folder
// and its file on one line, and only there.
func TestSurvivalOfGroupedPaths(t *testing.T) {
	covered := []summary.HalfTurn{{Messages: []turns.Message{turns.TextMessage(turns.User, "see src/a/one.go, src/a/two.go and src/b/three.go; run 4711")}}}
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

func TestSurvival(t *testing.T) {
	half := func(m *turns.Message) []summary.HalfTurn { return []summary.HalfTurn{{Messages: []turns.Message{*m}}} }
	changed := turns.TextMessage(turns.Assistant, "parseRule was changed")
	covered := half(&turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart("in /src/parse.go, parseRule fails with 40417 of 90210\n"),
		{Type: turns.ToolCall, ID: "x", Name: "run", Arguments: turns.Raw(`{"command":"make x"}`)}, {Type: turns.ToolCallResponse, ID: "x", Response: turns.RawText("panic: rule 7 is open\n")}}})
	replacement := []turns.Message{turns.TextMessage(turns.User, "see /src/parse.go\n- panic: rule 7 is open\n")}
	got := Survival(covered, half(&changed), replacement)
	want := `{"user":{"total":0,"kept":0},"errors":{"total":1,"kept":1},"commands":{"total":1,"kept":0},"paths":{"total":1,"kept":1},"identifiers":{"total":1,"kept":1},"numbers":{"total":2,"kept":0}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Arguments and results in JSON are read without its escapes: what stands behind a line
// end is a name of its own, in the turns as in a summary.
func TestFactsOfJSONAreReadWithoutItsEscapes(t *testing.T) {
	call := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "a", Name: "write", Arguments: turns.Raw(`{"file_path":"lib/b.go","text":"x\n+Status_1\n\tt_Fatalf\n/src/c.go"}`)}}}
	result := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "a", Response: turns.Raw(`[{"type":"text","content":"ok\nlib/d.go"}]`)}}}
	var got []string
	h := summary.HalfTurn{Messages: []turns.Message{call, result}}
	NewFinder(nil).Each(&h, func(f Fact) { got = append(got, f.Text) })
	if want := "lib/b.go Status_1 t_Fatalf /src/c.go lib/d.go"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", strings.Join(got, " "), want)
	}
}

// What stands in the text of the context as a piece of a longer word, or in the arguments of
// a call, is not lost; a longer name does not hold a shorter one.
func TestPieceOfTheContextIsNotLost(t *testing.T) {
	run := func(command string) turns.Message {
		return turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "x", Name: "bash", Arguments: turns.Raw(`{"command":"` + command + `"}`)}}}
	}
	shown := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "y", Response: turns.RawText("pond/gauge.go:20:func read() {\npond-core:https://example.org/pond/depth\n")}}}
	kept := []summary.HalfTurn{{Messages: []turns.Message{run("cd /w && make dredge LEVEL=3 && echo ok"), shown}}}
	for fact, lost := range map[Fact]bool{
		{pathKind, "pond/gauge.go"}:                  false,
		{pathKind, "https://example.org/pond/depth"}: false,
		{commandKind, "make dredge LEVEL=3"}:         false,
		{pathKind, "pond/gauge.g"}:                   true,
		{pathKind, "core:https://example.org/pond"}:  true,
		{commandKind, "make dredge LEVEL=30"}:        true,
	} {
		m := turns.TextMessage(turns.User, "see "+fact.Text)
		if fact.Kind == commandKind {
			m = run(fact.Text)
		}
		s := NewSurvey([]summary.HalfTurn{{Messages: []turns.Message{m}}}, kept, nil)
		if _, ok := s.facts[fact]; !ok || s.IsLost(fact) != lost {
			t.Errorf("%v: found %v, lost %v", fact, ok, s.IsLost(fact))
		}
	}
}
