// Package words splits texts into words, and says what of a word its term in an index is.
package words

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxTerm bounds the bytes of a term. Longer runs, such as base64, are indexed by their
// beginning.
const MaxTerm = 128

// Word is a term of a text and where it stands.
type Word struct {
	Term       string
	Start, End int // bytes of the text, [Start, End)
	// Whole is set for an identifier of several parts. It follows them, and is in no phrase:
	// it is only there for beginnings and for a better rank.
	Whole bool
}

// Of splits a text into terms: NFKC, lower case.
//
// A character of a script without spaces (Chinese, Japanese, Korean, Thai, Lao, Khmer,
// Burmese) is a word of its own, so that a phrase finds any run of them. An identifier is
// split where its case changes and at underscores, and is there as a whole, too. A path is
// its parts. A sequence that steers a terminal is no word.
func Of(text string) (out []Word) {
	Each(text, func(p Place) bool {
		out = append(out, Word{Term: TermOf(text[p.Start:p.End]), Start: p.Start, End: p.End, Whole: p.Whole})
		return true
	})
	return out
}

// Place is where a word stands: a [Word] without its term.
type Place struct {
	Start, End int
	Whole      bool
}

// Each yields where the words of a text stand, in the order of [Of], until yield
// returns false. It allocates nothing.
func Each(text string, yield func(Place) bool) {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == Escape:
			i += EscapeLen(text[i:])
			continue
		case c < utf8.RuneSelf && !inWord[c]:
			i++
			continue
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(text[i:])
			if isSingle(r) {
				n = composed(text[i:], n)
				if !yield(Place{Start: i, End: i + n}) {
					return
				}
			}
			if isSingle(r) || !isWord(r) {
				i += n
				continue
			}
		}
		start, plain := i, true // of one part, as it stands
		for i < len(text) {
			if c := text[i]; c < utf8.RuneSelf {
				if !inWord[c] {
					break
				}
				plain = plain && c != '_' && (c < 'A' || c > 'Z' || i == start)
				i++
				continue
			}
			r, n := utf8.DecodeRuneInString(text[i:])
			if !isWord(r) || isSingle(r) {
				break
			}
			plain = false
			i += n
		}
		if plain {
			if !yield(Place{Start: start, End: i}) {
				return
			}
		} else if !eachPart(text, start, i, yield) {
			return
		}
	}
}

// IsASCII reports whether a byte is a character of ASCII that words have.
func IsASCII(c byte) bool { return c < utf8.RuneSelf && inWord[c] }

// inWord says which bytes of ASCII are of words.
var inWord = func() (is [utf8.RuneSelf]bool) {
	for c := range rune(utf8.RuneSelf) {
		is[c] = isWord(c)
	}
	return is
}()

// Escape begins a sequence that steers a terminal: programs print colors so.
const Escape = '\x1b'

// LongestEscape bounds the bytes of a title or a link.
const LongestEscape = 4 << 10

// EscapeLen returns the bytes of the sequence that text begins with: ESC [ … letter, ESC ] …
// BEL, or two characters. One without an end is its beginning alone.
func EscapeLen(text string) int {
	if len(text) < 2 {
		return len(text)
	}
	switch text[1] {
	case '[':
		for i := 2; i < min(len(text), 64); i++ {
			if c := text[i]; c >= 0x40 && c <= 0x7e {
				return i + 1
			} else if c < 0x20 || c > 0x7e {
				break
			}
		}
		return 2
	case ']', 'P', '_', '^':
		for i := 2; i < min(len(text), LongestEscape); i++ {
			if text[i] == '\a' {
				return i + 1
			}
			if text[i] == Escape {
				return min(i+2, len(text))
			}
		}
		return 2
	case '(', ')', '#', '%':
		return min(3, len(text))
	}
	if text[1] >= 0x30 && text[1] <= 0x7e {
		return 2
	}
	return 1
}

// composed returns the bytes of the character at the beginning of text, whose first code
// point has n: names of files on macOS have Hangul and voiced Kana in several code points,
// which are written as one everywhere else.
func composed(text string, n int) int {
	for end := n; end < len(text); {
		r, size := utf8.DecodeRuneInString(text[end:])
		if !(r >= 0x1160 && r <= 0x11ff || r == 0x3099 || r == 0x309a || r == 0xff9e || r == 0xff9f) {
			break
		}
		end += size
		if utf8.RuneCountInString(norm.NFKC.String(text[:end])) != 1 {
			break
		}
		n = end
	}
	return n
}

// eachPart yields the parts of the word text[from:to], and the word if it has several. It
// returns false when yield does.
func eachPart(text string, from, to int, yield func(Place) bool) bool {
	count, start, more := 0, from, true
	flush := func(end int) {
		at, till := start, end
		for at < till && text[at] == '_' {
			at++
		}
		for at < till && text[till-1] == '_' {
			till--
		}
		if start = end; at < till && more {
			count++
			more = yield(Place{Start: at, End: till})
		}
	}
	var before, last rune // the two runes before i
	for i, r := range text[from:to] {
		i += from
		switch {
		case r == '_' || last == '_':
			flush(i)
		case unicode.IsUpper(r) && unicode.IsLower(last):
			flush(i)
		case unicode.IsLower(r) && unicode.IsUpper(last) && unicode.IsUpper(before): // HTTPRequest
			flush(i - utf8.RuneLen(last))
		}
		before, last = last, r
	}
	flush(to)
	return more && (count < 2 || yield(Place{Start: from, End: to, Whole: true}))
}

// TermOf returns the term of a word.
func TermOf(word string) string { return strings.ToLower(norm.NFKC.String(beginning(word))) }

// beginning returns what of a word is its term.
func beginning(word string) string {
	if len(word) <= MaxTerm {
		return word
	}
	n := MaxTerm
	for n > 0 && !utf8.RuneStart(word[n]) {
		n--
	}
	return word[:n]
}

// IsTerm reports whether t is the term of a word, without making that. The term of a letter
// of ASCII is that letter in lower case, unless a character behind it changes it, as an accent
// does, which is none of ASCII.
func IsTerm(word, t string) bool {
	word = beginning(word)
	for i := range len(word) {
		if c := word[i]; c >= utf8.RuneSelf {
			return TermOf(word) == t
		} else if i < len(t) && lower(c) == t[i] {
			continue
		}
		if i+1 == len(word) || word[i+1] < utf8.RuneSelf {
			return false
		}
		return TermOf(word) == t
	}
	return len(word) == len(t)
}

// BeginsTerm reports whether the term of a word begins with stem, in the way of [IsTerm].
func BeginsTerm(word, stem string) bool {
	word = beginning(word)
	for i := range len(word) {
		c := word[i]
		switch {
		case c >= utf8.RuneSelf:
			return strings.HasPrefix(TermOf(word), stem)
		case i == len(stem):
			return true
		case lower(c) == stem[i]:
		case i+1 == len(word) || word[i+1] < utf8.RuneSelf:
			return false
		default:
			return strings.HasPrefix(TermOf(word), stem)
		}
	}
	return len(word) >= len(stem)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func isWord(r rune) bool {
	if r >= 0xfe00 && r <= 0xfe0f { // says how the character before it is drawn
		return false
	}
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

// isSingle reports whether a character is a word of its own: of a script without spaces, or
// a picture. Lines and boxes are none.
func isSingle(r rune) bool {
	if r >= 0x2600 && r <= 0x27bf || r >= 0x1f000 && r <= 0x1faff {
		return true
	}
	return r >= 0xe00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
