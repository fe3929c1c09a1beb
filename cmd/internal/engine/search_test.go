package engine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
)

// find returns one page of a search in which the index has all that is stored.
func find(t testing.TB, w *world, e *Engine, c reader.Caller, r api.Search) *api.SearchHits {
	t.Helper()
	r.MinPosition = api.Position(page.FormatPosition(must(w.Log.State(t.Context()))(t).Last))
	return must(e.Search.Query(t.Context(), c, r))(t)
}

// found returns the hits of a search as "kind state marked snippet", sorted.
func found(t testing.TB, w *world, e *Engine, c reader.Caller, r api.Search) (out []string) {
	t.Helper()
	for _, h := range find(t, w, e, c, r).Hits {
		s := []rune(h.Snippet)
		for _, m := range slices.Backward(h.Matches) {
			s = slices.Concat(s[:m[0]], []rune("["), s[m[0]:m[1]], []rune("]"), s[m[1]:])
		}
		out = append(out, h.Kind+" "+h.State+" "+string(s))
	}
	slices.Sort(out)
	return out
}

// seek is a search for a text.
func seek(text string) api.Search { return api.Search{Text: text} }

func TestSearchFindsWhatIsStored(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("the quick brown fox", "it jumps over parseHTTPRequest in cmd/nexusd/main.go"))
	r := say("run it", "")
	r.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c1", Name: "bash", Arguments: turns.Raw(`{"command":"make\nall"}`)}}}
	add(t, e, s.ID, r)
	add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c1", Response: turns.Raw(`"panic: nil pointer\nin main.go"`)}}}}})
	m := turns.TextMessage(turns.Assistant, "東京タワーへ行きます")
	add(t, e, s.ID, api.AppendTurn{Response: &m})
	save(t, e, api.SaveMemory{Text: "the owner likes foxes and tea", Visibility: "all"})
	receive(t, e, alice, mail(`{"subject":"an invoice for tea","n":4711}`))
	big := strings.Repeat("padding ", 200_000) + "needleinablob"
	add(t, e, s.ID, say(big, "ok"))
	for text, want := range map[string][]string{
		`"brown fox"`:      {"turn live the quick [brown fox]"},
		"parse http":       {"turn live it jumps over [parseHTTPRequest] in cmd/nexusd/main.go"},
		"nexusd/main.go":   {"turn live it jumps over parseHTTPRequest in cmd/[nexusd/main.go]"},
		`"nil pointer in"`: {"turn live panic: [nil pointer in] main.go"},
		"make":             {"turn live bash command [make] all"},
		"タワー":              {"turn live 東京[タワー]へ行きます"},
		"tea":              {"event live subject an invoice for [tea] n 4711", "memory live the owner likes foxes and [tea]"},
		"4711":             {"event live subject an invoice for tea n [4711]"},
		"nothingofthekind": nil,
	} {
		if got := found(t, w, e, alice, seek(text)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if got := found(t, w, e, enginetest.Operator, seek(text)); !slices.Equal(got, want) {
			t.Errorf("%s by the operator: %q, want %q", text, got, want)
		}
		if got := found(t, w, e, bob, seek(text)); len(got) > 0 {
			t.Errorf("%s by another agent: %q", text, got)
		}
		other := reader.Caller{Tenant: "other", Agent: "alice"}
		if got := found(t, w, e, other, seek(text)); len(got) > 0 {
			t.Errorf("%s by another tenant: %q", text, got)
		}
	}
	if got := find(t, w, e, alice, seek("needleinablob")).Hits; len(got) != 1 || len(got[0].Snippet) > 1000 {
		t.Errorf("in a blob: %+v", got)
	}
	h := find(t, w, e, alice, seek("pointer")).Hits[0]
	if h.Session != s.ID || h.Depth != 3 || h.Role != "tool" || h.Half != "messages" || h.Type != "normal" || h.Agent != "alice" || h.Turn.IsZero() {
		t.Errorf("a hit in a tool's output: %+v", h)
	}
	for text, r := range map[string]api.Search{"kind": {Text: "tea", Kinds: []string{"event"}}, "tool": {Text: "make", Tool: "bash"}, "session": {Text: "tea", Session: s.ID}} {
		if got := find(t, w, e, alice, r).Hits; len(got) != 1 {
			t.Errorf("by %s: %+v", text, got)
		}
	}
}

// What a compaction covers, what it shortened, what lies on another branch and what was
// closed is found, and says so.
func TestSearchSaysWhatTheModelSees(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 8000, "nexus")
	var turn []turns.ID
	for i := range 8 {
		turn = append(turn, add(t, e, s.ID, say(fmt.Sprintf("marker%d %s", i, long(2000)), fmt.Sprintf("reply%d", i))).ID)
	}
	must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	state := func(r api.Search) string {
		t.Helper()
		hits := find(t, w, e, alice, r).Hits
		if len(hits) != 1 {
			return fmt.Sprint(len(hits), " hits")
		}
		return hits[0].State
	}
	if got := state(seek("marker0")); got != "compacted" {
		t.Errorf("a covered turn is %s", got)
	}
	if got := state(seek("reply7")); got != "live" {
		t.Errorf("the newest turn is %s", got)
	}
	summary := find(t, w, e, alice, api.Search{Text: `"1 messages"`}).Hits
	if len(summary) != 1 || summary[0].Type != "compaction" || summary[0].State != "live" {
		t.Errorf("the summary: %+v", summary)
	}
	fork := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: turn[3]}, []byte("f")))(t)
	add(t, e, fork.ID, say("onlyonthefork", "yes"))
	for name, tc := range map[string]struct {
		r    api.Search
		want string
	}{
		"a fork's turn":                       {seek("onlyonthefork"), "live"},
		"a fork's turn in its parent":         {api.Search{Text: "onlyonthefork", Session: s.ID}, "0 hits"},
		"an inherited turn in the fork":       {api.Search{Text: "marker2", Session: fork.ID, BranchOnly: true}, "live"},
		"a later turn in the fork":            {api.Search{Text: "marker5", Session: fork.ID}, "0 hits"},
		"a covered turn in its session alone": {api.Search{Text: "marker1", Session: s.ID, BranchOnly: true}, "compacted"},
	} {
		if got := state(tc.r); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	must(e.Sessions.Move(t.Context(), alice, fork.ID, api.MoveSession{To: &turn[2]}, nil))(t)
	add(t, e, fork.ID, say("aftermoving", "ok"))
	for name, tc := range map[string]struct {
		r    api.Search
		want string
	}{
		"left behind":                 {api.Search{Text: "onlyonthefork", Session: fork.ID}, "other_branch"},
		"left behind, no session":     {seek("onlyonthefork"), "other_branch"},
		"left behind, on branch only": {api.Search{Text: "onlyonthefork", Session: fork.ID, BranchOnly: true}, "0 hits"},
	} {
		if got := state(tc.r); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	must(e.Sessions.CloseSession(t.Context(), alice, fork.ID, api.CloseSession{}, nil))(t)
	if got := state(seek("aftermoving")); got != "archived" {
		t.Errorf("a turn of a closed session is %s", got)
	}
	verified(t, e)
}

func TestSearchSaysThatAPartIsShortened(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 40_000, "wolffish")
	add(t, e, s.ID, say("read them all", ""))
	reads(t, e, s.ID, "a", 9_000, 12_000, 6_000, 8_000, 5_000, 5_000, 5_000)
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	if cx.Compacted == nil {
		t.Fatal("not compacted")
	}
	shortened := map[uint64]bool{}
	for _, x := range must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t).Compaction.Elisions {
		shortened[x.Message] = true
	}
	if len(shortened) == 0 || len(shortened) == 7 {
		t.Fatalf("shortened are the outputs %v", shortened)
	}
	for i := range uint64(7) {
		r := seek(fmt.Sprintf(`"page a.%d"`, i))
		r.Kinds = []string{"turn"}
		want := "live"
		if shortened[i] {
			want = "elided"
		}
		hits := slices.DeleteFunc(find(t, w, e, alice, r).Hits, func(h api.SearchHit) bool { return h.Role != "tool" })
		if len(hits) != 1 || hits[0].State != want {
			t.Errorf("output %d: %+v, want %s", i, hits, want)
		}
	}
}

// A search shows a private memory where memory.search does, and nowhere else.
func TestSearchShowsPrivateMemoriesToNoPeer(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	main := createMain(t, e)
	peer := create(t, e, 0, "nexus")
	m := save(t, e, api.SaveMemory{Text: "the safe opens with 4711", Visibility: "main", Session: main})
	count := func(c reader.Caller, session turns.ID) int {
		return len(find(t, w, e, c, api.Search{Text: "safe", Session: session}).Hits)
	}
	if count(alice, main) != 1 || count(alice, turns.ID{}) != 1 || count(alice, peer.ID) != 0 || count(bob, turns.ID{}) != 0 {
		t.Errorf("main %d, the agent %d, peer %d, another agent %d", count(alice, main), count(alice, turns.ID{}), count(alice, peer.ID), count(bob, turns.ID{}))
	}
	for _, c := range []reader.Caller{bob, {Tenant: "other", Agent: "alice"}} {
		if _, err := e.Search.Query(t.Context(), c, api.Search{Text: "safe", Session: peer.ID}); code(err) != api.NotFound {
			t.Errorf("in a session of another agent: %v, want not_found", err)
		}
	}
	must(withdraw(t, e, alice, api.WithdrawMemory{Memory: m.ID}))(t)
	if got := found(t, w, e, alice, seek("safe")); !slices.Equal(got, []string{"memory archived the [safe] opens with 4711"}) {
		t.Errorf("a withdrawn memory: %q", got)
	}
}

// A page of long texts ends early, and the next goes on.
func TestSearchPagesAreBoundedByTheTextTheyLookAt(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	e.Search.PageText = 5000
	s := create(t, e, 0, "nexus")
	for range 6 {
		add(t, e, s.ID, say("needle "+long(2000), "ok"))
	}
	r, pages, seen := seek("needle"), 0, map[turns.ID]bool{}
	for {
		got := find(t, w, e, alice, r)
		if len(got.Hits) > 3 {
			t.Errorf("a page looks at %d texts of 2,000 bytes", len(got.Hits))
		}
		for _, h := range got.Hits {
			seen[h.Turn] = true
		}
		pages++
		if r.After = got.Next; r.After == "" {
			break
		}
	}
	if len(seen) != 6 || pages < 2 {
		t.Errorf("%d turns on %d pages", len(seen), pages)
	}
}

// A memory that was saved again is found once, by its own id.
func TestSearchFindsARepeatedMemoryOnce(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	m := save(t, e, api.SaveMemory{Text: "the owner likes tea", Visibility: "all"})
	for range 2 {
		save(t, e, api.SaveMemory{Text: "the owner likes tea", Visibility: "all"})
	}
	if hits := find(t, w, e, alice, seek("tea")).Hits; len(hits) != 1 || hits[0].Memory != m.ID {
		t.Errorf("%+v, want memory %s once", hits, m.ID)
	}
}

// Pages have each hit once, also if turns that match come between them.
func TestSearchPagesHaveEachHitOnce(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus")
	want := map[turns.ID]bool{}
	for i := range 25 {
		want[add(t, e, s.ID, say(fmt.Sprintf("common %s word%d", strings.Repeat("x ", i), i), "ok")).ID] = true
	}
	r := seek("common")
	r.Limit = 4
	for pages := 0; ; pages++ {
		got := find(t, w, e, alice, r)
		for _, h := range got.Hits {
			if !want[h.Turn] {
				t.Errorf("page %d: %s was there before, or came later", pages, h.Turn)
			}
			delete(want, h.Turn)
		}
		if r.After = got.Next; r.After == "" {
			break
		}
		add(t, e, s.ID, say("common news", "ok"))
	}
	if len(want) > 0 {
		t.Errorf("%d hits on no page", len(want))
	}
	for name, after := range map[string]string{"nothing": "x", "another query's": "0123456789abcdef~1~4", "a number too large": strings.Repeat("9", 30)} {
		if _, err := e.Search.Query(t.Context(), alice, api.Search{Text: "common", Page: api.Page{After: after}}); code(err) != api.Malformed {
			t.Errorf("after %s: %v, want malformed", name, err)
		}
	}
}

// An index that was stopped and went on, or that was made again, answers as one that never
// stopped.
func TestSearchAfterARestartAndARebuildIsTheSame(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	e, stop := w.SearchEngine(t, dir)
	s := create(t, e, 8000, "nexus")
	grow := func(from, to int) {
		for i := from; i < to; i++ {
			add(t, e, s.ID, say(fmt.Sprintf("topic%d topic%d %s", i%5, i%7, long(600)), fmt.Sprintf("answer%d", i)))
			must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t) // compacts
		}
	}
	grow(0, 20)
	find(t, w, e, alice, seek("topic1"))
	stop()
	grow(20, 40)
	again, stop := w.SearchEngine(t, dir)
	fresh, _ := w.SearchEngine(t, t.TempDir())
	check := func(name string, e *Engine) {
		t.Helper()
		for _, text := range []string{"topic1", "topic2 topic3", `"topic4 topic6"`, "answer3*", "answer39"} {
			r := seek(text)
			r.Limit = 100
			got, want := found(t, w, e, alice, r), found(t, w, fresh, alice, r)
			if !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("%s: %s: %d hits, a fresh index has %d", name, text, len(got), len(want))
			}
		}
	}
	check("after a restart", again)
	stop()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	rebuilt, _ := w.SearchEngine(t, dir)
	check("after its folder was deleted", rebuilt)
}

// Nothing of a session is found once its key is destroyed, whatever the index still has.
func TestSearchFindsNothingOfAnErasedSession(t *testing.T) {
	w, dir := newWorld(), t.TempDir()
	e, stop := w.SearchEngine(t, dir)
	s, kept := create(t, e, 0, "nexus"), create(t, e, 0, "nexus")
	add(t, e, s.ID, say("secretword here", "yes"))
	add(t, e, kept.ID, say("commonword here", "yes"))
	save(t, e, api.SaveMemory{Text: "secretword as a memory", Session: s.ID})
	if n := len(find(t, w, e, alice, seek("secretword")).Hits); n != 2 {
		t.Fatalf("%d hits before", n)
	}
	stop() // the index keeps the words
	if err := w.Keys.Destroy(s.ID); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*Engine{first(w.SearchEngine(t, dir))} {
		if got := found(t, w, e, alice, seek("secretword")); len(got) > 0 {
			t.Errorf("after its key was destroyed: %q", got)
		}
		if got := found(t, w, e, alice, seek("commonword")); len(got) != 1 {
			t.Errorf("of another session: %q", got)
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

func TestSearchRefusesWhatItCanNotServe(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus")
	for name, tc := range map[string]struct {
		r    api.Search
		want api.Code
	}{
		"no text":            {api.Search{}, api.Malformed},
		"operators":          {seek(`"*" - + ( )`), api.Malformed},
		"a long text":        {seek(strings.Repeat("a ", 10_000)), api.TooLarge},
		"a kind":             {api.Search{Text: "x", Kinds: []string{"label"}}, api.Malformed},
		"many kinds":         {api.Search{Text: "x", Kinds: slices.Repeat([]string{"turn"}, 100)}, api.Malformed},
		"no session":         {api.Search{Text: "x", BranchOnly: true}, api.Malformed},
		"an unknown one":     {api.Search{Text: "x", Session: newID(t)}, api.NotFound},
		"another's name":     {api.Search{Text: "x", Agent: "bob"}, api.NotFound},
		"no name":            {api.Search{Text: "x", Agent: "*.>"}, api.Malformed},
		"a limit":            {api.Search{Text: "x", Page: api.Page{Limit: 101}}, api.Malformed},
		"a long tool":        {api.Search{Text: "x", Tool: strings.Repeat("t", 1000)}, api.Malformed},
		"a position to come": {api.Search{Text: "x", Read: api.Read{MinPosition: "pzzzz"}}, api.Malformed},
	} {
		if _, err := e.Search.Query(t.Context(), alice, tc.r); code(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	if _, err := w.Engine(t).Search.Query(t.Context(), alice, seek("x")); code(err) != api.Unsupported {
		t.Errorf("without an index: %v, want unsupported", err)
	}
	if got := find(t, w, e, alice, api.Search{Text: "x", Session: s.ID, BranchOnly: true}); len(got.Hits) != 0 {
		t.Errorf("in an empty session: %+v", got)
	}
}

// What is remembered twice is one memory, and one hit, under the id that lists have.
