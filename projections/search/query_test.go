package search

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nexus/turns"
)

func TestSearchFindsWordsPhrasesIdentifiersAndPaths(t *testing.T) {
	src := newSource()
	src.add(turnOf("s", "The quick brown fox jumps over the lazy dog"))
	src.add(turnOf("s", "We renamed parseHTTPRequest in cmd/nexusd/main.go"))
	src.add(turnOf("s", "東京タワーへ行きました。天気は良かった"))
	src.add(Document{Kind: "turn", Tenant: "default", Agent: "alice", Session: "s", Tools: []string{"bash"}, Model: "m1",
		Calls: []string{"bash", `{"command":"grep -rn max_tokens_total ."}`}, Output: []string{"server.go:42: panic: nil pointer dereference"}})
	src.add(turnOf("s", "brown is not quick"))
	x, _ := open(t, t.TempDir(), src, 0)
	for text, want := range map[string]string{
		"fox":                     "1.0",
		"FOX dog":                 "1.0",
		`"quick brown"`:           "1.0",
		`"brown quick"`:           "",
		"quick brown":             "1.0 5.0",
		"parseHTTPRequest":        "2.0",
		"parse http request":      "2.0",
		"parseHTTPReq*":           "2.0",
		"pars*":                   "2.0",
		"parsehttprequest":        "2.0",
		"http":                    "2.0",
		"cmd/nexusd/main.go":      "2.0",
		"nexusd/main.go":          "2.0",
		"main.go":                 "2.0",
		"東京":                      "3.0",
		"天気":                      "3.0",
		"気天":                      "",
		"ﾀﾜｰ":                     "3.0",
		"max_tokens_total":        "4.0",
		"tokens":                  "4.0",
		`"nil pointer"`:           "4.0",
		"server.go:42":            "4.0",
		"fox zebra":               "1.0", // no document has both
		"zebra":                   "",
		"[a-z]+ OR (fox AND -x)":  "1.0",
		`unbalanced "lazy`:        "1.0",
		"f* fox":                  "1.0",
		"bash":                    "4.0",
		"\u200bfox\u0000":         "1.0",
		strings.Repeat("fox ", 9): "1.0",
	} {
		if got := strings.Join(search(t, x, text, Filter{}), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSearchIsBoundedByItsFilter(t *testing.T) {
	src := newSource()
	add := func(change func(*Document)) {
		d := turnOf("s", "needle")
		change(&d)
		src.add(d)
	}
	add(func(d *Document) {})
	add(func(d *Document) { d.Tenant = "other" })
	add(func(d *Document) { d.Agent = "bob" })
	add(func(d *Document) { d.Session, d.Segment, d.Depth, d.Time = "s2", "s2/1", 700, 36*hour+5 })
	src.add()
	add(func(d *Document) { d.Kind, d.Session, d.Segment = "memory", "", "" })
	add(func(d *Document) { d.Tools, d.Model = []string{"bash", "read"}, "m1" })
	add(func(d *Document) {
		d.Source, d.Cwd, d.Branch, d.Roles = "codex", "/home/a/nexus/cmd", "main", []string{"user", "tool"}
	})
	x, _ := open(t, t.TempDir(), src, 0)
	for _, tc := range []struct {
		name string
		f    Filter
		want string
	}{
		{"tenant", Filter{}, "1.0 3.0 4.0 6.0 7.0 8.0"},
		{"agent", Filter{Agent: "alice"}, "1.0 4.0 6.0 7.0 8.0"},
		{"no such agent", Filter{Agent: "carol"}, ""},
		{"kind", Filter{Kinds: []string{"memory"}}, "6.0"},
		{"two kinds", Filter{Agent: "bob", Kinds: []string{"memory", "turn"}}, "3.0"},
		{"session", Filter{Kinds: []string{"turn"}, In: []Place{{Session: "s2"}}}, "4.0"},
		{"segment", Filter{Kinds: []string{"turn"}, In: []Place{{Segment: "s2/1", Lo: 1, Hi: 700}}}, "4.0"},
		{"segment above", Filter{Kinds: []string{"turn"}, In: []Place{{Segment: "s2/1", Lo: 1, Hi: 600}}}, ""},
		{"segment below", Filter{Kinds: []string{"turn"}, In: []Place{{Segment: "s2/1", Lo: 800, Hi: 900}}}, ""},
		{"tool", Filter{Tool: "read"}, "7.0"},
		{"model", Filter{Model: "m1"}, "7.0"},
		{"role", Filter{Role: "tool"}, "8.0"},
		{"source", Filter{Source: "codex"}, "8.0"},
		{"branch", Filter{Branch: "main"}, "8.0"},
		{"folder", Filter{Cwd: "/home/a/nexus/cmd"}, "8.0"},
		{"folder above", Filter{Cwd: "/home/a/"}, "8.0"},
		{"folder of a longer name", Filter{Cwd: "/home/a/nex"}, ""},
		{"through a position", Filter{Through: 3 * blockRecords}, "1.0 3.0 4.0 6.0 7.0 8.0"},
		{"from", Filter{From: 30 * hour}, "4.0"},
		{"from the same hour", Filter{From: 36*hour + 9}, "4.0"},
		{"from the next hour", Filter{From: 37 * hour}, ""},
		{"to", Filter{Agent: "bob", To: 36 * hour}, "3.0"},
		{"to on the day", Filter{Agent: "alice", To: 37 * hour, From: 1}, "1.0 4.0 6.0 7.0 8.0"},
		{"from to", Filter{From: 2 * hour, To: 3 * hour}, ""},
		{"from to over a day", Filter{From: 2 * hour, To: 37 * hour}, "4.0"},
		{"from to over a month", Filter{From: -20 * day, To: 30 * day}, "1.0 3.0 4.0 6.0 7.0 8.0"},
		{"long ago", Filter{To: -day}, ""},
	} {
		got := search(t, x, "needle", tc.f)
		slices.Sort(got)
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, s, tc.want)
		}
	}
}

func TestHostileQueriesAreBoundedAndTyped(t *testing.T) {
	x, _ := open(t, t.TempDir(), corpus(20), 0)
	for name, text := range map[string]string{
		"empty": "", "space": " \t\n", "operators": `+-&|!(){}[]^"~*?:\/ "" ***`, "underscores": "___ _ __", "no words": "…—«»",
		"ten thousand terms": strings.Repeat("a ", 10_000), "a long word": strings.Repeat("x", 100_000),
		"many words": numbered(maxUnits + 1), "a long phrase": `"` + strings.Repeat("字", maxParts+1) + `"`,
	} {
		_, err := Parse(text)
		var f *turns.FieldError
		if !errors.As(err, &f) || f.Field != "/text" {
			t.Errorf("%s: %v, want an error of /text", name, err)
		}
	}
	for name, text := range map[string]string{
		"regular expression": `^(w1|w2)+.*$`, "a stem that all have": "w* w1*", "as many words as may be": numbered(maxUnits),
		"the longest phrase": `"` + strings.Repeat("字", maxParts) + `"`, "bytes that are no text": "w1 \xff\xfe\x00", "a query of fields": "tenant:other agent:bob w1",
	} {
		q, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r, err := x.Search(t.Context(), q, Filter{Tenant: "default"}); err != nil || len(r.Hits) > MaxHits {
			t.Errorf("%s: %d hits, %v", name, len(r.Hits), err)
		}
	}
}

// A text that says one word over and over costs one pass for each term of a phrase. The
// library's phrases take minutes for it.
func TestAPhraseInATextOfOneWordTakesOnePass(t *testing.T) {
	long := strings.Repeat("a ", 100_000)
	src := newSource()
	src.add(turnOf("s1", long+"b"))
	src.add(turnOf("s1", "a b b"))
	x, _ := open(t, t.TempDir(), src, 10)
	var q strings.Builder
	for n := 2; n <= 20; n++ {
		fmt.Fprintf(&q, "%q ", strings.TrimSpace(long[:2*n]))
	}
	for text, want := range map[string][]string{q.String(): {"1.0"}, `"a a b"`: {"1.0"}, `"a b"`: {"2.0", "1.0"}, `"b a"`: nil} {
		if got := search(t, x, text, Filter{}); !slices.Equal(got, want) {
			t.Errorf("%.20q finds %q, want %q", text, got, want)
		}
	}
	parsed, err := Parse(q.String())
	if err != nil {
		t.Fatal(err)
	}
	found := parsed.Find(long, parsed.Matches())
	if found.Units != 19 || len(found.Spans) > found.Units*maxSpans {
		t.Errorf("%d units at %d places", found.Units, len(found.Spans))
	}
	if s := Snip(long, found.Spans, nil); len(s.Matches) == 0 {
		t.Errorf("%+v", s)
	}
}

// numbered returns n different words.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "q%d ", i)
	}
	return b.String()
}

// Few hits are found without the library's scores, many with them. Both are ranked alike.
func TestTheBestOfManyHitsAreFound(t *testing.T) {
	src := newSource()
	for i := range MaxHits + 300 {
		text := "needle in a long text of many words that say nothing"
		if i == 7 || i == 9 {
			text = "needle needle"
		}
		d := turnOf(fmt.Sprint("s", i%100), text)
		src.add(d)
	}
	x, _ := open(t, t.TempDir(), src, 0)
	q, err := Parse("needle")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Filter{{Tenant: "default"}, {Tenant: "default", In: []Place{{Session: "s7"}, {Session: "s9"}, {Session: "s8"}}}} {
		r, err := x.Search(t.Context(), q, f)
		if err != nil {
			t.Fatal(err)
		}
		want := MaxHits
		if len(f.In) > 0 {
			want = 3 * (MaxHits + 300) / 100
		}
		if len(r.Hits) != want || r.All != want || r.Cut != (len(f.In) == 0) || r.Hits[0].ID != DocumentID(10, 0) || r.Hits[1].ID != DocumentID(8, 0) || r.Hits[1].Score <= r.Hits[2].Score {
			t.Errorf("%d hits of %d, cut %v, the first %+v", len(r.Hits), want, r.Cut, r.Hits[:min(len(r.Hits), 3)])
		}
	}
}

// What is behind the best hits is there once, newest first, whatever the size of a part.
func TestAllDocumentsWithTheWordsAreWalked(t *testing.T) {
	src := newSource()
	for i := range 50 {
		src.add(turnOf("s1", fmt.Sprint("needle ", i)), turnOf("s2", "hay"))
	}
	x, _ := open(t, t.TempDir(), src, 7)
	q, err := Parse("needle")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for seq := uint64(50); seq > 0; seq-- {
		want = append(want, DocumentID(seq, 0))
	}
	for _, size := range []int{1, 7, 50, 60} {
		var got []string
		for below, more := DocumentID(51, 0), true; more; {
			r, err := x.SearchBelow(t.Context(), q, Filter{Tenant: "default"}, below, size)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, h := range r.Hits {
				ids = append(ids, h.ID)
			}
			slices.Sort(ids)
			slices.Reverse(ids)
			got = append(got, ids...)
			below, more = r.Last, r.Cut
		}
		if len(want) != 50 || !slices.Equal(got, want) {
			t.Errorf("parts of %d: %q, want %q", size, got, want)
		}
	}
}
