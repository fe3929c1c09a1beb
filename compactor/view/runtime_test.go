package view_test

import (
	"os"
	"strings"
	"testing"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

// rounds returns a path on which the user asks, and the model then calls tools in rounds of
// so many calls.
func rounds(calls ...int) (p view.Path) {
	add := func(half turns.Half, m turns.Message) {
		p.Halves = append(p.Halves, summary.HalfTurn{Half: half, Messages: []turns.Message{m}})
	}
	add(turns.MessagesHalf, turns.TextMessage(turns.User, "Before."))
	add(turns.ResponseHalf, turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "old", Name: "read"}}})
	add(turns.MessagesHalf, turns.TextMessage(turns.User, "Read all emails."))
	for _, n := range calls {
		ask, answer := turns.Message{Role: turns.Assistant}, turns.Message{Role: turns.Tool}
		for i := range n {
			id := string(rune('a' + i))
			ask.Parts = append(ask.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: "read"})
			answer.Parts = append(answer.Parts, turns.Part{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText("mail")})
		}
		add(turns.ResponseHalf, ask)
		add(turns.MessagesHalf, answer)
	}
	return p
}

// TXT-1: the runtime block is the design's, byte for byte, with the counts since the user's
// newest text.
func TestRuntimeBlockIsTheDesigns(t *testing.T) {
	golden, err := os.ReadFile("../testdata/txt1/wolffish-runtime.txt")
	if err != nil {
		t.Fatal(err)
	}
	pol, _ := policy.Builtin("wolffish")
	s, ok := rounds(10, 4, 1).RuntimeSection(pol)
	if !ok || s.Name != "runtime" || s.Content != string(golden) {
		t.Errorf("%v, %s:\n%s\nwant\n%s", ok, s.Name, s.Content, golden)
	}
	s, _ = rounds().RuntimeSection(pol)
	if !strings.Contains(s.Content, "iteration this turn: 0\n") || !strings.Contains(s.Content, "called this turn: 0\n") {
		t.Errorf("before the first call:\n%s", s.Content)
	}
	seed, err := os.ReadFile("../../../shared/seeds/wolffish.md")
	if err != nil {
		t.Skip("no published designs beside the project")
	}
	if !strings.Contains(string(seed), string(golden)) {
		t.Error("the design says something else")
	}
}

// In the newest message the block is behind everything: a part of the user's message, or a
// message behind the results of tools. The messages before it stay as they were.
func TestRuntimeInTheNewestMessageKeepsThePrefix(t *testing.T) {
	pol, _ := policy.Builtin("balanced")
	pol.Runtime = policy.MessageRuntime
	for name, p := range map[string]view.Path{"after the user": rounds(), "after results": rounds(3, 2)} {
		c := p.CountedBy()
		plain, err := view.Render(p, c)
		if err != nil {
			t.Fatal(err)
		}
		before := plain.Fingerprint()
		cx := plain.WithRuntime(p, pol, c, 1000)
		if plain.Fingerprint() != before {
			t.Errorf("%s: the context that was given changed", name)
		}
		last := cx.Messages[len(cx.Messages)-1]
		text := last.Parts[len(last.Parts)-1].Content
		if last.Role != turns.User || !strings.HasPrefix(text, "<runtime>") {
			t.Errorf("%s: the last message is %+v", name, last)
		}
		n, sum, sources := len(plain.Messages), uint64(0), uint64(0)
		if name == "after the user" {
			n-- // it has one part more
		}
		same := view.Context{Messages: cx.Messages[:n]}
		if was := (view.Context{Messages: plain.Messages[:n]}); same.Fingerprint() != was.Fingerprint() {
			t.Errorf("%s: the messages before it differ", name)
		}
		for i := range cx.Messages {
			sum += c.Message(&cx.Messages[i])
		}
		for _, s := range cx.Sources {
			sources += s.Tokens
		}
		if sum != cx.Tokens || sources != sum || len(cx.Origins) != len(cx.Messages) {
			t.Errorf("%s: %d tokens, counted %d, of the sources %d", name, cx.Tokens, sum, sources)
		}
		if got := plain.WithRuntime(p, pol, c, cx.Tokens-plain.Tokens-1); got.Fingerprint() != before {
			t.Errorf("%s: it is there without room", name)
		}
	}
}
