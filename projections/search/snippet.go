package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

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
// few, and a text may say one word 100,000 times.
const maxSpans = 1000

// Find returns where units of q are in text, as whole words, and adds them to all. Words that
// say nothing of the subject have no place.
func (q Query) Find(text string, all Matches) (f Found) {
	words := Words(text)
	all.findExtras(words)
	var parts []Word
	var wholes []Span // identifiers of several parts
	for _, w := range words {
		if w.Whole {
			wholes = append(wholes, Span{w.Start, w.End})
		} else {
			parts = append(parts, w)
		}
	}
	stems := make(map[string]string)
	for i, u := range q.units {
		before := len(f.Spans)
		if len(u.parts) == 1 {
			for _, w := range words { // an identifier as one word, too: parsehttprequest
				if len(f.Spans) == before+maxSpans {
					break
				}
				if q.same(u, w.Term, stems) {
					f.Spans = append(f.Spans, Span{w.Start, w.End})
				}
			}
		} else {
			for i := range parts {
				if len(f.Spans) == before+maxSpans {
					break
				}
				if n := len(u.parts) - 1; followed(parts[i:], u) {
					f.Spans = append(f.Spans, Span{parts[i].Start, parts[i+n].End})
				}
			}
		}
		if len(f.Spans) > before {
			f.Units++
			all.units[i] = true
		}
		if u.stop {
			f.Spans = f.Spans[:before]
		}
	}
	for i := range f.Spans {
		f.Spans[i] = inWords(f.Spans[i], wholes)
	}
	slices.SortFunc(f.Spans, func(a, b Span) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	f.Spans = slices.Compact(f.Spans)
	return f
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

// same reports whether a word of a text is the one that u looks for.
func (q Query) same(u unit, word string, stems map[string]string) bool {
	switch {
	case word == u.parts[0] || u.prefix && strings.HasPrefix(word, u.parts[0]):
		return true
	case q.lang == nil || !u.isWord():
		return false
	}
	stem := func(s string) string {
		if _, ok := stems[s]; !ok {
			stems[s] = q.lang.stemOf(s)
		}
		return stems[s]
	}
	begin := []rune(u.parts[0])
	return strings.HasPrefix(word, string(begin[:min(len(begin), minForm-1)])) && stem(word) == stem(u.parts[0])
}

// followed reports whether words begin with those of u.
func followed(words []Word, u unit) bool {
	if len(words) < len(u.parts) {
		return false
	}
	for i, t := range u.parts {
		if words[i].Term != t && !(u.prefix && i == len(u.parts)-1 && strings.HasPrefix(words[i].Term, t)) {
			return false
		}
	}
	return true
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
func Snip(text string, spans []Span) (s Snippet) {
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
		from = spans[best].From
		for n := 0; from > 0 && n < leadChars; n++ {
			_, size := utf8.DecodeLastRuneInString(text[:from])
			from -= size
		}
	}
	var b strings.Builder
	if from > 0 {
		b.WriteRune('…')
	}
	chars := utf8.RuneCountInString(b.String())
	next, open := 0, -1
	for next < len(spans) && spans[next].From < from {
		next++
	}
	end := 0 // of the span that is open
	shut := func() {
		if open >= 0 && chars > open && len(s.Matches) < maxMatches {
			s.Matches = append(s.Matches, [2]int{open, chars})
		}
		open = -1
	}
	i := from
	for i < len(text) && chars < snippetChars {
		if open >= 0 && i >= end {
			shut()
		}
		for next < len(spans) && spans[next].From <= i {
			if open < 0 && spans[next].From == i {
				open, end = chars, spans[next].To
			} else if open >= 0 {
				end = max(end, spans[next].To)
			}
			next++
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == escape:
			i += escapeLen(text[i:])
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
