package summary

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// Bounds of EachSentence, in bytes.
const (
	// MaxSentence bounds a sentence. It also bounds the text that the search for the end
	// of one looks at, since that takes the square of a run of brackets or blanks.
	MaxSentence = 1_000
	maxCode     = 200 // what follows a sentence that ends inside backquotes
)

// EachSentence calls found for the sentences of a line, by UAX 29, in any script. A
// sentence does not end inside backquotes, nor after dots that belong to a path or a
// call, as in "go test ./... passes". One longer than [MaxSentence] is cut, after a comma
// or a blank where it has one. Together the pieces are the line.
func EachSentence(line string, found func(string)) {
	inCode, from, to := false, 0, 0
	for to < len(line) {
		s := nextSentence(line[to:])
		if to > from && to+len(s)-from > MaxSentence { // too long to be joined
			found(line[from:to])
			from, inCode = to, false
		}
		to += len(s)
		if strings.Count(s, "`")%2 == 1 {
			inCode = !inCode
		}
		if inCode && strings.IndexByte(line[to:min(len(line), to+maxCode)], '`') >= 0 || continues(s, line[to:]) {
			continue
		}
		inCode = false
		found(line[from:to])
		from = to
	}
	if from < to {
		found(line[from:to])
	}
}

// nextSentence returns the first sentence of s, or a piece of it.
func nextSentence(s string) string {
	window := s
	if len(s) > MaxSentence {
		window = s[:MaxSentence]
	}
	it := sentences.FromString(window)
	if !it.Next() {
		return window
	}
	first := it.Value()
	if len(first) == len(s) || len(first) < len(window) {
		return first
	}
	const half = MaxSentence / 2
	for _, ends := range [...]string{",;:", ",、;:،", " \t"} {
		if i := strings.LastIndexAny(window[half:], ends); i >= 0 {
			_, n := utf8.DecodeRuneInString(window[half+i:])
			return window[:half+i+n]
		}
	}
	for n := len(window); n > half; n-- {
		if utf8.RuneStart(s[n]) {
			return s[:n]
		}
	}
	return window // no UTF-8
}

// continues reports whether s, which rest follows, ends in a dot that is no end of a
// sentence: a word goes on behind it, or it belongs to dots or an abbreviation.
func continues(s, rest string) bool {
	if rest == "" {
		return false
	}
	if last := s[len(s)-1]; last > ' ' && last < utf8.RuneSelf && rest[0] < utf8.RuneSelf {
		return true
	}
	s = strings.TrimRight(s, " ")
	for _, end := range [...]string{"/...", "(...", " ...", "e.g.", "i.e.", "vs."} {
		if strings.HasSuffix(s, end) {
			return true
		}
	}
	return false
}
