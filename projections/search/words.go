package search

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

// Words splits a text into terms: NFKC, lower case.
//
// A character of a script without spaces (Chinese, Japanese, Korean, Thai, Lao, Khmer,
// Burmese) is a word of its own, so that a phrase finds any run of them. An identifier is
// split where its case changes and at underscores, and is there as a whole, too. A path is
// its parts. A sequence that steers a terminal is no word.
func Words(text string) (out []Word) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == escape:
			i += escapeLen(text[i:])
		case isSingle(r):
			n = composed(text[i:], n)
			out = add(out, text, i, i+n, false)
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
			out = parts(out, text, start, i)
		default:
			i += n
		}
	}
	return out
}

// escape begins a sequence that steers a terminal: programs print colors so.
const escape = '\x1b'

// escapeLen returns the bytes of the sequence that text begins with: ESC [ … letter, ESC ] …
// BEL, or two characters. One without an end is its beginning alone.
func escapeLen(text string) int {
	if len(text) < 2 {
		return len(text)
	}
	const longest = 4 << 10 // of a title or a link
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
		for i := 2; i < min(len(text), longest); i++ {
			if text[i] == '\a' {
				return i + 1
			}
			if text[i] == escape {
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

// parts adds the parts of the word text[from:to], and the word if it has several.
func parts(out []Word, text string, from, to int) []Word {
	count, start := 0, from
	flush := func(end int) {
		if s := strings.Trim(text[start:end], "_"); s != "" {
			at := start + strings.Index(text[start:end], s)
			count++
			out = add(out, text, at, at+len(s), false)
		}
		start = end
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
	if count > 1 {
		out = add(out, text, from, to, true)
	}
	return out
}

func add(out []Word, text string, start, end int, whole bool) []Word {
	s := text[start:end]
	if len(s) > MaxTerm {
		n := MaxTerm
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return append(out, Word{Term: strings.ToLower(norm.NFKC.String(s)), Start: start, End: end, Whole: whole})
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
