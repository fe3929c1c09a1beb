package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
		"source":         {api.Search{Role: "user", Source: "codex"}, []string{three, two}},
		"folder":         {api.Search{Role: "user", Cwd: "/home/a/nexus"}, []string{one, three, two}},
		"folder below":   {api.Search{Role: "user", Cwd: "/home/a/nexus/cmd/"}, []string{three, two}},
		"folder beside":  {api.Search{Role: "user", Cwd: "/home/a/nex"}, nil},
		"branch":         {api.Search{Role: "user", Branch: "fix"}, []string{three, two}},
		"as of":          {api.Search{Role: "user", AsOf: api.Position(first)}, []string{one}},
	} {
		x.r.Text = "needle"
		if got := hitsOf(find(t, w, e, alice, x.r).Hits); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// An importer states a folder and a branch only on the turn where they change. A turn
// without them has those of the turn above it, of its session, or of where it was forked.
func TestSearchFindsTurnsAfterAChangeOfBranch(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	e, stop := w.SearchEngine(t, dir)
	s := must(e.Sessions.Create(t.Context(), alice, api.CreateSession{SessionSettings: api.SessionSettings{Meta: turns.Raw(`{"source":"claude-code","cwd":"/a","git_branch":"main"}`)}}, []byte("{}")))(t).ID
	turn := func(session turns.ID, text, meta string) turns.ID {
		r := say(text, "ok")
		r.Meta = turns.Raw(meta)
		return add(t, e, session, r).ID
	}
	turn(s, "needle one", `{}`)
	turn(s, "needle two", `{"git_branch":"fix","cwd":"/a/b"}`)
	third := turn(s, "needle three", `{"uuid":"x"}`)
	find(t, w, e, alice, seek("needle"))
	stop()
	e, _ = w.SearchEngine(t, dir) // it knows nothing of the turns that are indexed
	bare := must(e.Forks.Fork(t.Context(), alice, s, api.CreateFork{Turn: third}, []byte("{}")))(t).ID
	turn(bare, "needle four", `{}`)
	other := must(e.Forks.Fork(t.Context(), alice, s, api.CreateFork{Turn: third, Meta: turns.Raw(`{"git_branch":"other"}`)}, []byte("{1}")))(t).ID
	turn(other, "needle five", `{}`)
	turn(s, "needle six", `{"git_branch":"main"}`)
	for _, x := range []struct {
		r    api.Search
		want []string
	}{
		{api.Search{Branch: "fix"}, []string{"needle four", "needle three", "needle two"}},
		{api.Search{Branch: "main"}, []string{"needle one", "needle six"}},
		{api.Search{Branch: "other"}, []string{"needle five"}},
		{api.Search{Cwd: "/a/b"}, []string{"needle five", "needle four", "needle six", "needle three", "needle two"}},
		{api.Search{Source: "claude-code", Branch: "other"}, []string{"needle five"}},
	} {
		x.r.Text = "needle"
		if got := hitsOf(find(t, w, e, alice, x.r).Hits); !slices.Equal(got, x.want) {
			t.Errorf("branch %q, folder %q: %q, want %q", x.r.Branch, x.r.Cwd, got, x.want)
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

// An answer need not repeat a word of its question. It is found beside it, if the query is a
// question and its filter is one that the ledger can compare.
func TestAnAnswerWithoutTheWordsIsFoundBesideItsQuestion(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus").ID
	for _, text := range []string{"soup for lunch", "the owl book is good", "Did you paint anything lately?", "Yes, two landscapes", "with a lake", "and mountains"} {
		m := turns.TextMessage(turns.User, text)
		add(t, e, s, api.AppendTurn{Messages: []turns.Message{m}})
	}
	add(t, e, create(t, e, 0, "nexus").ID, say("another session", "of the agent"))
	asked := "Which picture was it that you have been painting?"
	r := find(t, w, e, alice, seek(asked))
	got := make([]string, len(r.Hits)) // in their order
	for i, h := range r.Hits {
		got[i] = h.Snippet
		if !h.Some || (len(h.Matches) > 0) != (i == 0) {
			t.Errorf("%q: some is %v, matches %v", h.Snippet, h.Some, h.Matches)
		}
	}
	if !slices.Equal(got, []string{"Did you paint anything lately?", "Yes, two landscapes", "the owl book is good"}) {
		t.Errorf("%q", got)
	}
	for _, r := range []api.Search{{Text: "painting picture"}, {Text: asked, Role: "user"}, {Text: asked, Kinds: []string{"turn", "memory"}, Covered: true}} {
		for _, h := range find(t, w, e, alice, r).Hits {
			if h.Snippet == "Yes, two landscapes" {
				t.Errorf("%+v finds %q", r, h.Snippet)
			}
		}
	}
}

// A talk stays with its subject: of turns with the same words, the one two turns behind
// another hit is before the one that stands alone.
func TestATurnTwoTurnsBehindAHitIsBeforeOneThatStandsAlone(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus").ID
	for _, text := range []string{"the zeppelin landed", "it rains today", "tickets were cheap", "a dog", "a cat", "a cow", "tickets were dear"} {
		add(t, e, s, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text)}})
	}
	var got []string
	for _, h := range find(t, w, e, alice, seek("tickets zeppelin")).Hits {
		got = append(got, h.Snippet)
	}
	if !slices.Equal(got, []string{"the zeppelin landed", "tickets were cheap", "tickets were dear"}) {
		t.Errorf("%q", got)
	}
}

// covered leaves what a compaction covers, and the parts that one shortened.
func TestSearchOfCoveredFindsWhatTheModelDoesNotSee(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 8000, "nexus").ID
	for i := range 8 {
		add(t, e, s, say(fmt.Sprintf("needle%d %s", i, long(2000)), "ok"))
	}
	must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{}, []byte("{}")))(t)
	for i, covered := range map[int]bool{0: true, 7: false} {
		r := seek(fmt.Sprintf("needle%d", i))
		r.Kinds, r.Role, r.Covered = []string{"turn"}, "user", true
		hits := find(t, w, e, alice, r).Hits
		if covered && (len(hits) != 1 || hits[0].State != "compacted" || !strings.HasPrefix(hits[0].Snippet, "needle0")) || !covered && len(hits) > 0 {
			t.Errorf("turn %d: %+v, covered is %v", i, hits, covered)
		}
	}
	e.Search.PageText = 1 // a page ends behind the first text that it looks at
	if hits := find(t, w, e, alice, api.Search{Text: "need*", Kinds: []string{"turn"}, Role: "user", Covered: true}).Hits; len(hits) != 1 {
		t.Errorf("a search for what is covered read turns that are not: %+v", hits)
	}
	e.Search.PageText = 8 << 20
	s = create(t, e, 40_000, "wolffish").ID
	add(t, e, s, say("read them all", ""))
	reads(t, e, s, "a", 9_000, 12_000, 6_000, 8_000, 5_000, 5_000, 5_000)
	cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
	if cx.Compacted == nil {
		t.Fatal("not compacted")
	}
	shortened := map[uint64]bool{}
	for _, x := range must(e.Reader.GetTurn(t.Context(), alice, s, api.GetTurn{ID: *cx.Compacted}))(t).Compaction.Elisions {
		shortened[x.Message] = true
	}
	if len(shortened) == 0 || len(shortened) == 7 {
		t.Fatalf("shortened are the outputs %v", shortened)
	}
	for i := range uint64(7) {
		hits := find(t, w, e, alice, api.Search{Text: fmt.Sprintf(`"page a.%d"`, i), Kinds: []string{"turn"}, Role: "tool", Covered: true}).Hits
		if (len(hits) == 1) != shortened[i] || len(hits) == 1 && hits[0].State != "elided" {
			t.Errorf("output %d, shortened %v: %+v", i, shortened[i], hits)
		}
	}
}

// Where nothing has all of the words in the role that is asked for, what has some is found.
func TestSearchFallsBackWhereAllWordsAreOfOtherRoles(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus").ID
	add(t, e, s, say("alpha one", "beta one"))
	add(t, e, s, say("alpha two", "gamma"))
	r := api.Search{Text: "alpha beta", Role: "user", Page: api.Page{Limit: 1}}
	one := find(t, w, e, alice, r)
	if !one.Any || len(one.Hits) != 1 || one.Next == "" {
		t.Fatalf("%+v", one)
	}
	r.After = one.Next
	two := find(t, w, e, alice, r)
	if got := hitsOf(append(one.Hits, two.Hits...)); !slices.Equal(got, []string{"alpha one", "alpha two"}) || two.Next != "" {
		t.Errorf("%q, then %q", got, two.Next)
	}
}

// A page that ends where those begin is followed by them, also where what the first page
// found was dropped.
func TestSomeOfTheWordsFollowOnAnotherDaemon(t *testing.T) {
	w := newWorld()
	dir := t.TempDir()
	e, stop := w.SearchEngine(t, dir)
	s := create(t, e, 0, "nexus").ID
	add(t, e, s, say("alpha one", "beta one"))
	add(t, e, s, say("alpha two", "gamma"))
	r := api.Search{Text: "alpha beta", Role: "user"}
	e.Search.PageText = 1
	one := find(t, w, e, alice, r)
	if len(one.Hits) > 0 || one.Next == "" {
		t.Fatalf("%+v", one)
	}
	stop()
	e, _ = w.SearchEngine(t, dir)
	r.After = one.Next
	if got := hitsOf(find(t, w, e, alice, r).Hits); !slices.Equal(got, []string{"alpha one", "alpha two"}) {
		t.Errorf("%q", got)
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

// Of turns that say the same, a question that names a month finds that of the month first.
func TestAQuestionThatNamesADateFindsItsTurnsFirst(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus").ID
	for month := time.January; month <= time.June; month++ {
		r := say(fmt.Sprintf("number %d: we chose another database", month), "noted")
		at := api.Time(time.Date(2026, month, 3, 0, 0, 0, 0, time.UTC))
		r.Time = &at
		add(t, e, s, r)
		for range 4 {
			add(t, e, s, say("something else altogether", "yes"))
		}
	}
	for month := time.January; month <= time.June; month++ {
		hits := find(t, w, e, alice, seek("which database did we pick in "+month.String())).Hits
		if want := fmt.Sprintf("number %d:", month); len(hits) == 0 || !strings.HasPrefix(hits[0].Snippet, want) {
			t.Errorf("%s: %+v", month, hits[:min(len(hits), 1)])
		}
	}
}
