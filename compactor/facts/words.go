package facts

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EachName calls found for the paths, identifiers and numbers of a text, also for
// repeated ones. A word with a slash that may be a path is one here. JSON in the text, and strings in
// code, are read without their escapes: what stands behind \n is a name of its own.
func EachName(text string, found func(Fact)) {
	if strings.Contains(text, "</") { // the end of an element is no path
		text = strings.ReplaceAll(text, "</", "<")
	}
	if strings.Contains(text, `\`) {
		text = withoutEscapes(decoded(text))
	}
	for i := 0; i < len(text); i++ {
		begin, marks := i, byte(0)
		for ; i < len(text); i++ {
			m := markOf[text[i]]
			if m == gapMark {
				break
			}
			if i > begin || m != upperMark {
				marks |= m
			}
		}
		if marks == 0 { // most words
			continue
		}
		for w := range eachWord(text[begin:i]) {
			if len(w) < minFactBytes || len(w) > maxFactBytes {
				continue
			}
			if kind := kindOf(w); kind != "" {
				found(Fact{kind, w})
			}
		}
	}
}

// What bytes say of the words that they are in. A word without a mark is none of a fact's: it has
// small letters, and a capital at its beginning.
const (
	gapMark   byte = 1 << iota // it stands between words
	upperMark                  // a capital, which counts inside of a word
	someMark                   // anything else that a fact may need: a digit, a slash, a joint, a byte that is not ASCII
)

var markOf = func() (of [256]byte) {
	for c := range of {
		switch {
		case c >= utf8.RuneSelf:
			of[c] = someMark
		case isGap[c]:
			of[c] = gapMark
		case c >= 'A' && c <= 'Z':
			of[c] = upperMark
		case c >= '0' && c <= '9' || strings.IndexByte("/_.-:", byte(c)) >= 0:
			of[c] = someMark
		}
	}
	return of
}()

// Words returns the words of a text, without punctuation at their ends.
func Words(s string) []string {
	return slices.Collect(eachWord(s))
}

// eachWord yields the words of a text, as Words has them: one may be empty.
func eachWord(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		begin := -1 // of the word that goes on
		for i, size := 0, 1; i < len(s); i += size {
			gap := false
			if c := s[i]; c < utf8.RuneSelf {
				gap, size = isGap[c], 1
			} else {
				var r rune
				r, size = utf8.DecodeRuneInString(s[i:])
				gap = r == '→' || unicode.IsSpace(r) // tools number the lines of a file as 3→import
			}
			switch {
			case !gap && begin < 0:
				begin = i
			case gap && begin >= 0:
				if !yield(trimWord(s[begin:i])) {
					return
				}
				begin = -1
			}
		}
		if begin >= 0 {
			yield(trimWord(s[begin:]))
		}
	}
}

// isGap says which bytes of ASCII stand between words.
var isGap = func() (is [utf8.RuneSelf]bool) {
	for _, c := range "\t\n\v\f\r \"'`,;()[]{}<>=|*&!?\\" {
		is[c] = true
	}
	return is
}()

// trimWord returns a word without the punctuation at its ends that may stand inside of one.
func trimWord(w string) string {
	isEnd := func(c byte) bool { return c == '.' || c == ':' || c == '-' || c == '+' }
	for w != "" && isEnd(w[0]) && !isHiddenPath(w) {
		w = w[1:]
	}
	for w != "" && isEnd(w[len(w)-1]) {
		w = w[:len(w)-1]
	}
	return w
}

// kindOf returns the kind of a word, "" if it is none of a fact's.
func kindOf(w string) string {
	digits, letters, slash, joint, upper := 0, 0, 0, 0, 0
	for i, r := range w {
		switch {
		case r >= 'a' && r <= 'z':
			letters++
		case r >= '0' && r <= '9':
			digits++
		case r == '/':
			slash++
		case r == '_' || r == '.' || r == '-' || r == ':':
			joint++
		case unicode.IsUpper(r):
			letters++
			if i > 0 {
				upper++
			}
		case unicode.IsLetter(r):
			letters++
		}
	}
	switch {
	case slash > 0 && letters > 1:
		if isPath(w) {
			return pathKind
		}
	case letters == 0 && digits >= 3:
		return numberKind
	case letters > 2 && (digits > 0 || joint > 0 || (upper > 0 && upper < letters-1)):
		return identifierKind
	}
	return ""
}
