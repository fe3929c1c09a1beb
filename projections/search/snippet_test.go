package search

import (
	"slices"
	"strings"
	"testing"
)

func TestSnippetsMarkTheirMatches(t *testing.T) {
	long := strings.Repeat("filler words here, ", 40)
	for _, tc := range []struct{ text, query, want string }{
		{"the quick brown fox", "brown", "the quick [brown] fox"},
		{"the quick brown fox", `"quick brown"`, "the [quick brown] fox"},
		{"call parseHTTPRequest now", "http", "call [parseHTTPRequest] now"},
		{"call parseHTTPRequest now", "parse http", "call [parseHTTPRequest] now"},
		{"see cmd/a.go.", "cmd/a.go", "see [cmd/a.go]."},
		{"東京タワーへ", "タワー", "東京[タワー]へ"},
		{"tokens token", "tok*", "[tokens] [token]"},
		{"a\nb\tc\x1b[31m\u202e fox", "fox", "a b c\ufffd [fox]"},
		{"registryMu.RLock() of the logFile", "lock file", "registryMu.[RLock]() of the [logFile]"},
		{"why the lock is in the file", "is the lock in the file", "why the [lock] is in the [file]"},
		{"the the", "the", "[the] [the]"},
		{"see log_file_name now", `"file name"`, "see [log_file_name] now"},
		{"\x1b[36;1mlock\x1b[0m \x1b]0;title\afile\x00\b", "lock file", "[lock] [file]"},
		{"nothing of it", "zebra", "nothing of it"},
		{"", "zebra", ""},
		{long + "needle " + long, "needle", "…" + long[len(long)-60:] + "[needle] " + long[:172] + "…"},
	} {
		q, err := Parse(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		s := Snip(tc.text, q.Find(tc.text, q.Matches()).Spans, nil)
		r := []rune(s.Text)
		for _, m := range slices.Backward(s.Matches) {
			r = slices.Concat(r[:m[0]], []rune("["), r[m[0]:m[1]], []rune("]"), r[m[1]:])
		}
		if string(r) != tc.want {
			t.Errorf("%q in %.60q: %q\nwant %q", tc.query, tc.text, string(r), tc.want)
		}
	}
}

func FuzzSnip(f *testing.F) {
	f.Add("the quick brown fox", "quick* \"brown fox\"")
	f.Add("\xff東京\u202e", "東")
	f.Fuzz(func(t *testing.T, text, query string) {
		q, err := Parse(query)
		if err != nil {
			return
		}
		s := Snip(text, q.Find(text, q.Matches()).Spans, nil)
		n := len([]rune(s.Text))
		if n > snippetChars+2 {
			t.Fatalf("%d characters", n)
		}
		last := 0
		for _, m := range s.Matches {
			if m[0] < last || m[1] <= m[0] || m[1] > n {
				t.Fatalf("%v of %d characters", s.Matches, n)
			}
			last = m[1]
		}
	})
}
