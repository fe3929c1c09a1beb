package words

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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
		for _, w := range Of(text) {
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
		words := Of(s)
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

// slowWords is [Of] by runes.
func slowWords(text string) (out []Word) {
	add := func(start, end int, whole bool) {
		out = append(out, Word{Term: TermOf(text[start:end]), Start: start, End: end, Whole: whole})
	}
	parts := func(from, to int) {
		count, start := 0, from
		flush := func(end int) {
			if s := strings.Trim(text[start:end], "_"); s != "" {
				at := start + strings.Index(text[start:end], s)
				count++
				add(at, at+len(s), false)
			}
			start = end
		}
		var before, last rune
		for i, r := range text[from:to] {
			i += from
			switch {
			case r == '_' || last == '_':
				flush(i)
			case unicode.IsUpper(r) && unicode.IsLower(last):
				flush(i)
			case unicode.IsLower(r) && unicode.IsUpper(last) && unicode.IsUpper(before):
				flush(i - utf8.RuneLen(last))
			}
			before, last = last, r
		}
		flush(to)
		if count > 1 {
			add(from, to, true)
		}
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == Escape:
			i += EscapeLen(text[i:])
		case isSingle(r):
			n = composed(text[i:], n)
			add(i, i+n, false)
			i += n
		case isWord(r):
			start := i
			for i < len(text) {
				r, n := utf8.DecodeRuneInString(text[i:])
				if !isWord(r) || isSingle(r) {
					break
				}
				i += n
			}
			parts(start, i)
		default:
			i += n
		}
	}
	return out
}

// pieces are what texts of the comparisons are made of.
var pieces = []string{
	" ", " ", "\n", "the ", "thing", "Thing ", "things ", "carry ", "carries", "parseHTTPRequest", "parse http ", "log_file_name", "_", "__init__ ", "file name ", "e\u0301", "te\u0301st ", "test ", "\u212a", "k ", "ﬁle ", "İx ", "ſ ", "s\u0307 ",
	"東京タワー", "ﾀﾜｰ ", "\u1112\u1161\u11ab", "✅", "❤️ ", "\x1b[31m", "\x1b]0;a title\a", "\x1b", "\x00", "\xff", "\u202e", "a/b.go ", "x509Cert ", "12 ", "…", strings.Repeat("long", 40) + " ", strings.Repeat("й", 80), "MASKé\x1b[1mtoken ", "MASKxyz",
}

func textOf(t *rapid.T, name string, most int) string {
	return strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(pieces), rapid.StringN(0, 4, -1)), 0, most).Draw(t, name), "")
}

func TestWordsAreThoseByRunes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := textOf(t, "text", 30)
		if d := gocmp.Diff(slowWords(text), Of(text)); d != "" {
			t.Fatalf("%q: -want +got\n%s", text, d)
		}
	})
}

// A term is compared with that of a word as if the word's term were made.
func TestTermsAreComparedWithoutMakingThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.SampledFrom(pieces), rapid.String()).Draw(t, "word")
		term := TermOf(rapid.OneOf(rapid.Just(word), rapid.SampledFrom(pieces), rapid.Just(word[:len(word)/2]), rapid.Just(word+"s")).Draw(t, "term"))
		if got, want := IsTerm(word, term), TermOf(word) == term; got != want {
			t.Fatalf("%q is %q: %v", word, term, got)
		}
		if got, want := BeginsTerm(word, term), strings.HasPrefix(TermOf(word), term); got != want {
			t.Fatalf("%q begins with %q: %v", word, term, got)
		}
	})
}
