package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWordsOfTexts(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"Hello, World!":            "hello@1 world@2",
		"parseHTTPRequest ok":      "parse@1 http@2 request@3 [parsehttprequest]@1 ok@4",
		"max_tokens_total":         "max@1 tokens@2 total@3 [max_tokens_total]@1",
		"__init__":                 "init@1",
		"_":                        "",
		"cmd/nexusd/main.go":       "cmd@1 nexusd@2 main@3 go@4 [cmd/nexusd/main.go]@1",
		"a.b. c":                   "a@1 b@2 [a.b]@1 c@3",
		"x509Cert sha256":          "x509cert@1 sha256@2",
		"done ✅ 👍🏽 ❤️ ok":          "done@1 ✅@2 👍@3 🏽@4 ❤@5 ok@6",
		"한국어 你好世界":                 "한@1 국@2 어@3 你@4 好@5 世@6 界@7",
		"a/b/c.go:12":              "a@1 b@2 c@3 go@4 12@5 [a/b/c.go:12]@1",
		"┌──┐ │x│":                 "x@1",
		"東京タワーへ":                   "東@1 京@2 タ@3 ワ@4 ー@5 へ@6",
		"ﾀﾜｰ Ｎｅｘｕｓ":                "タ@1 ワ@2 ー@3 nexus@4",
		"Straße ΑΘΗΝΑ":             "straße@1 αθηνα@2",
		"go1.26を使う":                "go1@1 26@2 [go1.26]@1 を@3 使@4 う@5",
		"pkg/fooBar.go":            "pkg@1 foo@2 bar@3 [foobar]@2 go@4 [pkg/foobar.go]@1",
		"- -- ... /":               "",
		"see a/_/b":                "see@1 a@2 b@3",
		strings.Repeat("a", 1000):  strings.Repeat("a", MaxTerm) + "@1",
		strings.Repeat("ж", 1000):  strings.Repeat("ж", MaxTerm/2) + "@1",
		"bad \xff\xfe bytes\xc3":   "bad@1 bytes@2",
		"user@example.com #42 c++": "user@1 example@2 com@3 [user@example.com]@1 42@4 c@5",
	} {
		var got []string
		for _, w := range Words(text) {
			term := w.Term
			if w.Whole {
				term = "[" + term + "]"
			}
			got = append(got, fmt.Sprintf("%s@%d", term, w.Position))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%.40q: %s\nwant %s", text, s, want)
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{"parseHTTPRequest", "a/b_c.d", "東京 タワー", "\xff_A_", "ﬁ ǅ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words := Words(s)
		for _, w := range words {
			if w.Start < 0 || w.End > len(s) || w.Start >= w.End || w.Position < 1 || w.Term == "" {
				t.Fatalf("%q: %+v", s, w)
			}
			if utf8.ValidString(s) && !utf8.ValidString(s[w.Start:w.End]) {
				t.Fatalf("%q: %+v splits a character", s, w)
			}
		}
		parts := slices.DeleteFunc(words, func(w Word) bool { return w.Whole })
		for i, w := range parts {
			if w.Position != i+1 {
				t.Fatalf("%q: part %d has position %d", s, i, w.Position)
			}
		}
	})
}
