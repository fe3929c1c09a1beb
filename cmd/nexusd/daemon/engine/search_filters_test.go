package engine_test

import (
	"slices"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// hitsOf returns the snippets of what a search finds.
func hitsOf(hits []api.SearchHit) (out []string) {
	for _, h := range hits {
		out = append(out, h.Snippet)
	}
	slices.Sort(out)
	return out
}

func TestSearchIsBoundedByFolderBranchSourceRoleAndPosition(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus").ID
	turn := func(text, meta string) string {
		r := say(text, "answered "+text)
		r.Meta = turns.Raw(meta)
		return add(t, e, s, r).Position
	}
	first := turn("needle one", `{"source":"claude-code","cwd":"/home/a/nexus","git_branch":"main"}`)
	turn("needle two", `{"source":"codex","cwd":"/home/a/nexus/cmd","git":{"branch":"fix"}}`)
	turn("needle three", `{"source":["odd"],"cwd":7}`)
	one, two, three := "needle one", "needle two", "needle three"
	for name, x := range map[string]struct {
		r    api.Search
		want []string
	}{
		"role user":      {api.Search{Role: "user"}, []string{one, three, two}},
		"role assistant": {api.Search{Role: "assistant"}, []string{"answered " + one, "answered " + three, "answered " + two}},
		"role tool":      {api.Search{Role: "tool"}, nil},
		"source":         {api.Search{Role: "user", Source: "codex"}, []string{two}},
		"folder":         {api.Search{Role: "user", Cwd: "/home/a/nexus"}, []string{one, two}},
		"folder below":   {api.Search{Role: "user", Cwd: "/home/a/nexus/cmd/"}, []string{two}},
		"folder beside":  {api.Search{Role: "user", Cwd: "/home/a/nex"}, nil},
		"branch":         {api.Search{Role: "user", Branch: "fix"}, []string{two}},
		"as of":          {api.Search{Role: "user", AsOf: first}, []string{one}},
		"covered":        {api.Search{Role: "user", Covered: true}, nil},
	} {
		x.r.Text = "needle"
		if got := hitsOf(find(t, w, e, alice, x.r).Hits); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// A phrase that the index takes for one by chance is no hit, since the text has it not.
func TestSearchOfAPhraseIsExact(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus").ID
	var b strings.Builder
	for i := range 20_000 { // so many pairs that each hash of a pair is there
		b.WriteString(string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + " ")
	}
	add(t, e, s, say("right "+b.String()+"left", "nothing"))
	add(t, e, s, say("turn left right there", "nothing"))
	if got := hitsOf(find(t, w, e, alice, seek(`"left right"`)).Hits); !slices.Equal(got, []string{"turn left right there"}) {
		t.Errorf("%.200q", got)
	}
}

// A question finds what has some of its words in other forms, and what is said next to it.
func TestAQuestionFindsOtherFormsAndNeighbours(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus").ID
	for _, text := range []string{"the weather is fine", "Did you paint anything lately?", "Yes, two landscapes", "I was cooking", "what is that"} {
		m := turns.TextMessage(turns.User, text)
		m.Name = "Caroline"
		add(t, e, s, api.AppendTurn{Messages: []turns.Message{m}})
	}
	r := find(t, w, e, alice, seek("What was it that Caroline has been painting?"))
	if !r.Any || len(r.Hits) != 5 || r.Hits[0].Snippet != "Did you paint anything lately?" || !r.Hits[0].Some {
		t.Errorf("%v: %q", r.Any, hitsOf(r.Hits))
	}
	if m := r.Hits[0].Matches; len(m) != 1 || m[0] != [2]int{8, 13} {
		t.Errorf("the other form is not marked: %v", m)
	}
	if !slices.Contains([]string{r.Hits[1].Snippet, r.Hits[2].Snippet}, "Yes, two landscapes") {
		t.Errorf("the answer is behind %q, %q", r.Hits[1].Snippet, r.Hits[2].Snippet)
	}
}

func TestSnippetsMaskCredentials(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus").ID
	key := "gh" + "p_" + strings.Repeat("Ab3dE7gH", 5)
	add(t, e, s, say("the token "+key+" works", "ok"))
	if got := find(t, w, e, alice, seek("token works")).Hits[0].Snippet; strings.Contains(got, "Ab3d") || !strings.Contains(got, "****") {
		t.Errorf("%q", got)
	}
	if got := find(t, w, e, alice, api.Search{Text: "token works", ShowSecrets: true}).Hits[0].Snippet; !strings.Contains(got, key) {
		t.Errorf("%q", got)
	}
}
