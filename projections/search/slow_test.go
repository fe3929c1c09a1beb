package search

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/projections/search/words"
	"nexus/turns"
)

// slowFind is [Query.Find] over a list of all words, unit by unit.
func slowFind(q Query, text string, all Matches) (f Found) {
	every := words.Of(text)
	last := ""
	for _, w := range every {
		for i, x := range all.wanted {
			if w.Whole && x.whole != "" && w.Term == x.whole || !w.Whole && x.whole == "" && w.Term == x.pair[1] && last == x.pair[0] {
				all.extras[i] = true
			}
		}
		if !w.Whole {
			last = w.Term
		}
	}
	var parts []words.Word
	var wholes []Span
	for _, w := range every {
		if w.Whole {
			wholes = append(wholes, Span{w.Start, w.End})
		} else {
			parts = append(parts, w)
		}
	}
	same := func(u unit, at int, word string) bool {
		last := at == len(u.parts)-1
		if word == u.parts[at] || u.prefix && last && strings.HasPrefix(word, u.parts[at]) {
			return true
		}
		begin := []rune(u.parts[at])
		return q.lang != nil && u.isWord() && strings.HasPrefix(word, string(begin[:min(len(begin), minForm-1)])) && q.lang.stemOf(word) == q.lang.stemOf(u.parts[at])
	}
	for i, u := range q.units {
		list := parts
		if len(u.parts) == 1 {
			list = every
		}
		var spans []Span
		for j := range list {
			if n := len(u.parts); j+n <= len(list) && len(spans) < maxSpans {
				ok := true
				for k := range n {
					ok = ok && same(u, k, list[j+k].Term)
				}
				if ok {
					spans = append(spans, Span{list[j].Start, list[j+n-1].End})
				}
			}
		}
		if len(spans) > 0 {
			f.Units++
			all.units[i] = true
		}
		if !u.stop {
			f.Spans = append(f.Spans, spans...)
		}
	}
	for i := range f.Spans {
		f.Spans[i] = inWords(f.Spans[i], wholes)
	}
	slices.SortFunc(f.Spans, func(a, b Span) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	f.Spans = slices.Compact(f.Spans)
	return f
}

// slowSnip is [Snip] of a text that is masked as a whole.
func slowSnip(text string, spans []Span) (s Snippet) {
	best, most := 0, 0
	for i := range spans {
		n := 0
		for _, b := range spans[i:] {
			if b.To > spans[i].From+snippetChars-leadChars || n == maxMatches {
				break
			}
			n++
		}
		if n > most {
			best, most = i, n
		}
	}
	from := 0
	if len(spans) > 0 {
		from = lead(text, spans[best].From)
	}
	var b strings.Builder
	if from > 0 {
		b.WriteRune('…')
	}
	chars := utf8.RuneCountInString(b.String())
	open, end := -1, 0
	shut := func() {
		if open >= 0 && chars > open && len(s.Matches) < maxMatches {
			s.Matches = append(s.Matches, [2]int{open, chars})
		}
		open = -1
	}
	spans = slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.From < from })
	i := from
	for i < len(text) && chars < snippetChars {
		if open >= 0 && i >= end {
			shut()
		}
		for len(spans) > 0 && spans[0].From <= i {
			if open < 0 && spans[0].From == i {
				open, end = chars, spans[0].To
			} else if open >= 0 {
				end = max(end, spans[0].To)
			}
			spans = spans[1:]
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == words.Escape:
			i += words.EscapeLen(text[i:])
			continue
		case r != '\n' && r != '\t' && r != '\r' && unicode.IsControl(r):
			i += size
			continue
		case r == '\n' || r == '\t' || r == '\r':
			r = ' '
		case turns.IsHidden(r):
			r = utf8.RuneError
		}
		b.WriteRune(r)
		chars, i = chars+1, i+size
	}
	shut()
	if i < len(text) {
		b.WriteRune('…')
	}
	s.Text = b.String()
	return s
}

// pieces are what texts and queries of the comparisons are made of.
var pieces = []string{
	" ", " ", "\n", "the ", "thing", "Thing ", "things ", "carry ", "carries", "parseHTTPRequest", "parse http ", "log_file_name", "_", "__init__ ", "file name ", "e\u0301", "te\u0301st ", "test ", "\u212a", "k ", "ﬁle ", "İx ", "ſ ", "s\u0307 ",
	"東京タワー", "ﾀﾜｰ ", "\u1112\u1161\u11ab", "✅", "❤️ ", "\x1b[31m", "\x1b]0;a title\a", "\x1b", "\x00", "\xff", "\u202e", "a/b.go ", "x509Cert ", "12 ", "…", strings.Repeat("long", 40) + " ", strings.Repeat("й", 80), "MASKé\x1b[1mtoken ", "MASKxyz",
}

func textOf(t *rapid.T, name string, most int) string {
	return strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(pieces), rapid.StringN(0, 4, -1)), 0, most).Draw(t, name), "")
}

// What is found in a text, and shown of it, is what a list of all its words and a text that is masked as a whole give.
func TestPlacesAndSnippetsAreThoseOfTheWholeText(t *testing.T) {
	maskAll := func(text string) string {
		b := []byte(text)
		for i := 0; i < len(b); i++ {
			if strings.HasPrefix(text[i:], "MASK") {
				for ; i < len(b) && b[i] != ' ' && b[i] != '\n'; i++ {
					b[i] = '*'
				}
			}
		}
		return string(b)
	}
	rapid.Check(t, func(t *rapid.T) {
		var words []string
		for range rapid.IntRange(1, 4).Draw(t, "units") {
			w := textOf(t, "unit", 3)
			switch rapid.IntRange(0, 3).Draw(t, "form") {
			case 0:
				w = `"` + w + `"`
			case 1:
				w += "*"
			}
			words = append(words, w)
		}
		q, err := Parse(strings.Join(words, " "))
		if err != nil {
			t.Skip()
		}
		if rapid.Bool().Draw(t, "loose") {
			q = q.Loose()
		}
		text := textOf(t, "text", 60)
		if rapid.IntRange(0, 4).Draw(t, "long") == 0 {
			text = strings.Repeat(text+" ", 400)
		}
		wantAll, gotAll := q.Matches(), q.Matches()
		want, got := slowFind(q, text, wantAll), q.Find(text, gotAll)
		if d := gocmp.Diff([]any{want, wantAll.units, wantAll.extras}, []any{got, gotAll.units, gotAll.extras}); d != "" {
			t.Fatalf("%+v in %.2000q: -want +got\n%s", q, text, d)
		}
		for _, mask := range []func(string) string{func(s string) string { return s }, maskAll} {
			want := slowSnip(mask(text), want.Spans)
			got := Snip(text, got.Spans, func(from, to int) string { return mask(text)[from:to] })
			if d := gocmp.Diff(want, got); d != "" {
				t.Fatalf("%+v in %.2000q: -want +got\n%s", q, text, d)
			}
		}
	})
}

// The memory that a search of a text for words takes does not grow with the text.
func TestFindMakesNoListOfWords(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "Line %d names Something in file-%d.go and parseRequest. ", i, i)
	}
	q, err := Parse("needle haystack")
	if err != nil {
		t.Fatal(err)
	}
	text, m := b.String(), q.Matches()
	if n := testing.AllocsPerRun(5, func() { q.Find(text, m) }); n > 10 {
		t.Errorf("%v allocations for %d bytes", n, len(text))
	}
}
