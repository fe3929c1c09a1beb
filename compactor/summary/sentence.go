package summary

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// EachSentence calls found for the sentences of a line, by UAX 29, in any script. A
// sentence does not end inside backquotes, nor after dots that belong to a path or a
// call, as in "go test ./... passes".
func EachSentence(line string, found func(string)) {
	inCode, from, to := false, 0, 0
	for it := sentences.FromString(line); it.Next(); {
		s := it.Value()
		to += len(s)
		if strings.Count(s, "`")%2 == 1 {
			inCode = !inCode
		}
		if inCode && strings.IndexByte(line[to:], '`') >= 0 || continues(s, line[to:]) {
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
