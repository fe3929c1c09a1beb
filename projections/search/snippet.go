package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"nexus/projections/search/words"
	"nexus/turns"
)

// Span is a place in a text: bytes, [From, To).
type Span struct{ From, To int }

// Matches says which units of a query texts have, and which extras.
type Matches struct {
	units  []bool
	extras []bool
	wanted []extra
}

// Matches returns an empty one for q.
func (q Query) Matches() Matches {
	m := Matches{units: make([]bool, len(q.units)), wanted: q.extras()}
	m.extras = make([]bool, len(m.wanted))
	return m
}

// Extra returns the sum of worth over the extras that the texts have.
func (m Matches) Extra(worth []float64) (sum float64) {
	for i, ok := range m.extras {
		if ok && i < len(worth) {
			sum += worth[i]
		}
	}
	return sum
}

// Count returns how many units there are.
func (m Matches) Count() (n int) {
	for _, ok := range m.units {
		if ok {
			n++
		}
	}
	return n
}

// Found is where units of a query are in a text.
type Found struct {
	Spans []Span // in the order of the text
	Units int    // how many different ones
}

// maxSpans bounds the places of one unit that Find returns: the first ones. A snippet shows
// few, and a long summary says a word of every turn on each line.
const maxSpans = 128

// Find returns where units of q are in text, as whole words, and adds them to all. Words that
// say nothing of the subject have no place. It makes no list of the words, and no term of one that
// is of ASCII: a summary has tens of thousands.
func (q Query) Find(text string, all Matches) (f Found) {
	s := finding{query: &q, all: &all, text: text, left: make([]int, len(q.units)), open: len(q.units), longest: 1}
	for i := range q.units {
		s.left[i], s.longest = maxSpans, max(s.longest, len(q.units[i].parts))
	}
	s.recent = make([]words.Place, s.longest)
	words.Each(text, s.word)
	f = s.found
	for i := range f.Spans {
		f.Spans[i] = inWords(f.Spans[i], s.wholes)
	}
	slices.SortFunc(f.Spans, func(a, b Span) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	f.Spans = slices.Compact(f.Spans)
	return f
}

// finding is a [Query.Find] under way.
type finding struct {
	query   *Query
	all     *Matches
	text    string
	found   Found
	left    []int         // places that each unit may still have
	open    int           // units that may have more
	missing bool          // an extra
	longest int           // parts of the longest unit
	recent  []words.Place // the last words that are no whole identifiers, so many; the one with number n at n modulo their number
	words   int           // such words so far
	end     int           // where the last place ends
	wholes  []Span        // identifiers of several parts, at least those with a place in them, in order
	stems   map[string]string
	begins  []string // the beginnings that all forms of the units' words have
}

// word looks at the next word, and reports whether to go on.
func (s *finding) word(p words.Place) bool {
	if s.open == 0 && !s.missing && p.Start >= s.end && s.text[s.end] < utf8.RuneSelf && !words.IsASCII(s.text[s.end]) {
		return false // no identifier around the last place is to come
	}
	if p.Whole && (s.longest > 1 || p.Start < s.end) {
		s.wholes = append(s.wholes, Span{p.Start, p.End})
	}
	s.missing = s.all.findExtras(s, p)
	if !p.Whole {
		s.recent[s.words%s.longest] = p
		s.words++
	}
	for i := range s.query.units {
		if s.left[i] == 0 {
			continue
		}
		u := &s.query.units[i]
		begin := p
		if n := len(u.parts); n > 1 {
			if p.Whole || !s.followed(u) {
				continue
			}
			begin = s.recent[(s.words-n)%s.longest]
		} else if !s.same(i, u, s.text[p.Start:p.End]) { // an identifier as one word, too: parsehttprequest
			continue
		}
		if s.left[i] == maxSpans {
			s.found.Units++
			s.all.units[i] = true
		}
		if s.left[i]--; u.stop {
			s.left[i] = 0
		} else {
			s.found.Spans, s.end = append(s.found.Spans, Span{begin.Start, p.End}), max(s.end, p.End)
		}
		if s.left[i] == 0 {
			s.open--
		}
	}
	return true
}

// followed reports whether the last words are those of u.
func (s *finding) followed(u *unit) bool {
	n := len(u.parts)
	if s.words < n {
		return false
	}
	for i := n - 1; i >= 0; i-- {
		p := s.recent[(s.words-n+i)%s.longest]
		word := s.text[p.Start:p.End]
		if !words.IsTerm(word, u.parts[i]) && !(u.prefix && i == n-1 && words.BeginsTerm(word, u.parts[i])) {
			return false
		}
	}
	return true
}

// inWords returns a place with the whole identifiers in which it begins and ends: a reader
// takes registryMu.RLock for a word, not its Lock. wholes are in order.
func inWords(s Span, wholes []Span) Span {
	around := func(at int) (Span, bool) {
		i, _ := slices.BinarySearchFunc(wholes, at, func(w Span, at int) int {
			if w.To <= at {
				return -1
			}
			return 1
		})
		if i < len(wholes) && wholes[i].From <= at && at < wholes[i].To {
			return wholes[i], true
		}
		return Span{}, false
	}
	if w, ok := around(s.From); ok {
		s.From = w.From
	}
	if w, ok := around(s.To - 1); ok {
		s.To = w.To
	}
	return s
}

// same reports whether a word of the text is the one that u, which has number i, looks for.
func (s *finding) same(i int, u *unit, word string) bool {
	switch {
	case words.IsTerm(word, u.parts[0]) || u.prefix && words.BeginsTerm(word, u.parts[0]):
		return true
	case s.query.lang == nil || !u.isWord():
		return false
	}
	if s.begins == nil {
		s.stems = make(map[string]string)
		for _, u := range s.query.units {
			begin := []rune(u.parts[0])
			s.begins = append(s.begins, string(begin[:min(len(begin), minForm-1)]))
		}
	}
	return words.BeginsTerm(word, s.begins[i]) && s.stemOf(words.TermOf(word)) == s.stemOf(u.parts[0])
}

func (s *finding) stemOf(term string) string {
	if _, ok := s.stems[term]; !ok {
		s.stems[term] = s.query.lang.stemOf(term)
	}
	return s.stems[term]
}

// Snippet is the part of a text that a reply shows.
type Snippet struct {
	Text    string
	Matches [][2]int // characters of Text, [from, to), in order, none in another
}

const (
	snippetChars = 240
	maxMatches   = 32
	leadChars    = 60 // shown before the first match
)

// Snip returns the part of text with the most matches, and where they are in it. Sequences
// that color a terminal and control characters are left out, hidden characters are shown as U+FFFD and line ends as spaces, so that a text can neither steer
// a terminal nor look like another one; offsets count characters.
//
// With mask, text[from:to] is shown as mask(from, to) has it, which is of the same length and hides
// bytes by characters of one byte. It is called once, for what is shown and a little more.
func Snip(text string, spans []Span, mask func(from, to int) string) (s Snippet) {
	at := densest(spans)
	lo, hi := reach(text, at)
	shown := text[lo:hi]
	if mask != nil {
		shown = mask(lo, hi)
	}
	i := lead(shown, at-lo) // of shown; it begins at lo in the text
	var b strings.Builder
	if lo+i > 0 {
		b.WriteRune('…')
	}
	chars := utf8.RuneCountInString(b.String())
	next, open := 0, -1
	for next < len(spans) && spans[next].From < lo+i {
		next++
	}
	end := 0 // of the span that is open
	shut := func() {
		if open >= 0 && chars > open && len(s.Matches) < maxMatches {
			s.Matches = append(s.Matches, [2]int{open, chars})
		}
		open = -1
	}
	for i < len(shown) && chars < snippetChars {
		if open >= 0 && lo+i >= end {
			shut()
		}
		for next < len(spans) && spans[next].From <= lo+i {
			if open < 0 && spans[next].From == lo+i {
				open, end = chars, spans[next].To
			} else if open >= 0 {
				end = max(end, spans[next].To)
			}
			next++
		}
		r, size := nextShown(shown[i:])
		if i += size; r < 0 {
			continue
		}
		b.WriteRune(r)
		chars++
	}
	shut()
	if lo+i < len(text) {
		b.WriteRune('…')
	}
	s.Text = b.String()
	return s
}

// densest returns where the first place begins with the most others near behind it; 0: there is none.
func densest(spans []Span) int {
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
	if len(spans) == 0 {
		return 0
	}
	return spans[best].From
}

// lead returns where what is shown of a text begins, for a match at a place.
func lead(text string, at int) int {
	for n := 0; at > 0 && n < leadChars; n++ {
		_, size := utf8.DecodeLastRuneInString(text[:at])
		at -= size
	}
	return at
}

// nextShown returns the character that stands for what a text begins with, and the bytes of that;
// -1: nothing stands for it.
func nextShown(text string) (r rune, size int) {
	r, size = utf8.DecodeRuneInString(text)
	switch {
	case r == words.Escape:
		return -1, words.EscapeLen(text)
	case r == '\n' || r == '\t' || r == '\r':
		r = ' '
	case unicode.IsControl(r):
		return -1, size
	case turns.IsHidden(r):
		r = utf8.RuneError
	}
	return r, size
}

// reach returns what [Snip] reads of a text at most to show a match at a place, also of one of the same
// length with characters of one byte in place of some bytes: it shows more of them.
func reach(text string, at int) (lo, hi int) {
	lo = lead(text, at)
	hi = lo
	for chars := 0; hi < len(text) && chars < snippetChars; {
		r, size := nextShown(text[hi:])
		if hi += size; r >= 0 {
			chars++
		}
	}
	return lo, min(len(text), hi+words.LongestEscape)
}
