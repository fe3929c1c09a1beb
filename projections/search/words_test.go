package search

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWordsOfTexts(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"Hello, World!":       "hello world",
		"parseHTTPRequest ok": "parse http request [parsehttprequest] ok",
		"max_tokens_total":    "max tokens total [max_tokens_total]",
		"__init__":            "init",
		"_":                   "",
		"cmd/nexusd/main.go":  "cmd nexusd main go",
		"a.b. c":              "a b c",
		"x509Cert sha256":     "x509cert sha256",
		"\u1112\u1161\u11ab\u1100\u116e\u11a8 \u30ab\u3099a ｶﾞﾊﾟ \u3099": "한 국 ガ a ガ パ \u3099",
		"done ✅ 👍🏽 ❤️ ok":                                                "done ✅ 👍 🏽 ❤ ok",
		"한국어 你好世界":                                                       "한 국 어 你 好 世 界",
		"a/b/c.go:12":                                                    "a b c go 12",
		"┌──┐ │x│":                                                       "x",
		"東京タワーへ":                                                         "東 京 タ ワ ー へ",
		"ﾀﾜｰ Ｎｅｘｕｓ":                                                      "タ ワ ー nexus",
		"Straße ΑΘΗΝΑ":                                                   "straße αθηνα",
		"go1.26を使う":                                                      "go1 26 を 使 う",
		"pkg/fooBar.go":                                                  "pkg foo bar [foobar] go",
		"- -- ... /":                                                     "",
		"see a/_/b":                                                      "see a b",
		strings.Repeat("a", 1000):                                        strings.Repeat("a", MaxTerm),
		strings.Repeat("ж", 1000):                                        strings.Repeat("ж", MaxTerm/2),
		"\x1b[36;1mlock\x1b[0mfile\x1b":                                  "lock file",
		"\x1b]8;;http://x\aname\x1b]8;;\a":                               "name",
		"\x1b[":                                                          "",
		"bad \xff\xfe bytes\xc3":                                         "bad bytes",
		"user@example.com #42 c++":                                       "user example com 42 c",
	} {
		var got []string
		for _, w := range Words(text) {
			term := w.Term
			if w.Whole {
				term = "[" + term + "]"
			}
			got = append(got, term)
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
			if w.Start < 0 || w.End > len(s) || w.Start >= w.End || w.Term == "" {
				t.Fatalf("%q: %+v", s, w)
			}
			if utf8.ValidString(s) && !utf8.ValidString(s[w.Start:w.End]) {
				t.Fatalf("%q: %+v splits a character", s, w)
			}
		}
		for i, w := range words {
			if i > 0 && !w.Whole && w.Start < words[i-1].End {
				t.Fatalf("%q: %+v begins within %+v", s, w, words[i-1])
			}
		}
	})
}
