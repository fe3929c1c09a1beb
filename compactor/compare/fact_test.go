package compare

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
)

func TestFacts(t *testing.T) {
	for text, want := range map[string][]fact{
		"Open ./cmd/main.go:120, then cmd/.":                                        {{Lines, "Open ./cmd/main.go:120, then cmd/."}, {Paths, "cmd/main.go"}, {Numbers, "120"}},
		"see https://go.dev/ref/mod.":                                               {{Paths, "go.dev/ref/mod"}},
		"../up/x and /etc and ...and/or":                                            {{Lines, "../up/x and /etc and ...and/or"}, {Paths, "../up/x"}, {Paths, "/etc"}, {Paths, "and/or"}},
		"maxSize max_size max-size v1.2 a1b":                                        {{Lines, "maxSize max_size max-size v1.2 a1b"}, {Identifiers, "maxSize"}, {Identifiers, "max_size"}, {Identifiers, "max-size"}, {Identifiers, "v1.2"}},
		"HTTP README Title word 12 1.5":                                             nil,
		"99 100 1,234 2026-11-21 3.141":                                             {{Numbers, "100"}, {Numbers, "234"}, {Numbers, "2026-11-21"}, {Numbers, "3.141"}},
		"  ERROR: it broke badly\t":                                                 nil,
		"if err != nil { return error }":                                            {{Lines, "if err != nil { return error }"}},
		"   12→  if err != nil { return those }\n7\tif err != nil { return those }": {{Lines, "if err != nil { return those }"}, {Lines, "if err != nil { return those }"}},
		"--- FAIL: TestX (0.00s)":                                                   {{Identifiers, "TestX"}, {Identifiers, "0.00s"}},
	} {
		var got []fact
		eachFact(text, func(f fact) { got = append(got, f) })
		if d := cmp.Diff(want, got, cmp.AllowUnexported(fact{})); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

// What an agent writes is its text and its arguments; names of members, ids
// and reasoning are none of it.
func TestWritten(t *testing.T) {
	m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{
		{Type: turns.Reasoning, Content: "think"}, {Type: turns.Text, Content: "say"},
		{Type: turns.ToolCall, ID: "call_1", Name: "run", Arguments: turns.Raw(`{"file_path" : "a\u002fb\n\"c\"", "n":[-12.5e3, true,"x"], "o":{"k":"v"}}`)},
	}}
	var got []string
	eachWritten(&m, func(s string) { got = append(got, s) })
	if d := cmp.Diff([]string{"say", "a/b\n\"c\"", "-12.5e3", "x", "v"}, got); d != "" {
		t.Error(d)
	}
	for _, torn := range []string{`{"a`, `{"a\`, `"`, `[1`} {
		eachString(turns.Raw(torn), func(string) {})
	}
}

// A path grouped under its folder counts if both are in one line.
func TestPageNames(t *testing.T) {
	p := (*page)(nil).of([]turns.Message{turns.TextMessage(turns.User, "src/: a.go, sub/b.go\nlib/\nc.go 4096\n- error: it was full (twice)")})
	for text, want := range map[string]bool{
		"src/a.go": true, "src/sub/b.go": true, "lib/a.go": false, "lib/c.go": false, "sub/b.go": true, "src/c.go": false, "rc/a.go": false,
	} {
		if got := p.has(fact{Paths, text}, true); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if p.has(fact{Paths, "src/a.go"}, false) {
		t.Error("grouped, where paths are not")
	}
	if !p.has(fact{Lines, "- error: it was full (twice)"}, true) || !p.has(fact{Numbers, "4096"}, true) || p.has(fact{Numbers, "409"}, true) {
		t.Error("words and lines")
	}
	if (*page)(nil).has(fact{Paths, "a/b"}, true) {
		t.Error("an empty page names something")
	}
}

// What a shortened half shows of itself counts as shown, the rest of it is one
// expand away; what no compaction covers and nothing shows is lost.
func TestShortened(t *testing.T) {
	tr := New([]Turn{
		{user("lost/one"), says("seen/two and gone/three")},
		{user("kept/four"), says("ok")},
		{user("go"), says("lost/one seen/two gone/three kept/four")},
	}, 0)
	r := tr.begin(policy.Policy{}, Options{})
	cut := turns.TextMessage(turns.Assistant, "seen/two […]")
	cx := view.Context{
		Messages: []turns.Message{cut, tr.turns[1].Messages[0], *tr.turns[1].Response, tr.turns[2].Messages[0]},
		Origins:  []int{0, 1, 2, 3},
		Sources: []view.Source{
			{Turn: ref(turnRef, 0), Half: turns.ResponseHalf, Status: view.Trimmed},
			{Turn: ref(turnRef, 1), Half: turns.MessagesHalf, Status: view.Verbatim},
			{Turn: ref(answerRef, 1), Half: turns.ResponseHalf, Status: view.Verbatim},
			{Turn: ref(turnRef, 2), Half: turns.MessagesHalf, Status: view.Verbatim},
		},
	}
	r.score(2, &cx)
	want := Survival{}
	want.Hidden[Paths] = Share{All: 3, Shown: 1, Reachable: 1}
	if d := cmp.Diff(want.Hidden, r.out.Survival.Hidden); d != "" {
		t.Error(d)
	}
	if got, want := r.out.Survival.AllEarlier(), (Share{All: 4, Shown: 2, Reachable: 1}); got != want {
		t.Errorf("earlier %+v, want %+v", got, want)
	}
}
