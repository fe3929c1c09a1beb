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
	Position   int // from 1; words that follow each other have consecutive positions
	Whole      bool
	Identifier bool // a whole that is one identifier, no path
}

// Words splits a text into terms: NFKC, lower case.
//
// A character of a script without spaces (Chinese, Japanese, Korean, Thai, Lao, Khmer,
// Burmese) is a word of its own, so that a phrase finds any run of them. An identifier is
// split where its case changes and at underscores, and stands as a whole, too, at the
// position of its first part. So does a run of words that are joined by characters of
// paths. A phrase is compared with the parts; a whole is only there for prefixes and for
// a better rank.
func Words(text string) []Word {
	var out []Word
	position := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case isSingle(r):
			position++
			out = add(out, text, i, i+n, position, false)
			i += n
		case isWord(r):
			i, position, out = run(out, text, i, position)
		default:
			i += n
		}
	}
	return out
}

// run adds the words of text from i on that are joined by characters of paths.
func run(out []Word, text string, i, position int) (int, int, []Word) {
	start, first, count := i, position+1, 0
	end := i
	for {
		word := i
		for i < len(text) {
			r, n := utf8.DecodeRuneInString(text[i:])
			if !isWord(r) || isSingle(r) {
				break
			}
			i += n
		}
		before := position
		out, position = parts(out, text, word, i, position)
		if position == before { // underscores only
			if count == 0 {
				return i, position, out
			}
			break
		}
		count, end = count+1, i
		if i >= len(text) || !isJoint(text[i]) || i+1 >= len(text) {
			break
		}
		if r, _ := utf8.DecodeRuneInString(text[i+1:]); !isWord(r) || isSingle(r) {
			break
		}
		i++
	}
	if count > 1 {
		out = add(out, text, start, end, first, true)
	}
	return i, position, out
}

// parts adds the parts of the word text[from:to], and the word if it has several.
func parts(out []Word, text string, from, to, position int) ([]Word, int) {
	first, count, start := position+1, 0, from
	flush := func(end int) {
		if s := strings.Trim(text[start:end], "_"); s != "" {
			at := start + strings.Index(text[start:end], s)
			position++
			count++
			out = add(out, text, at, at+len(s), position, false)
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
		out = add(out, text, from, to, first, true)
		out[len(out)-1].Identifier = true
	}
	return out, position
}

func add(out []Word, text string, start, end, position int, whole bool) []Word {
	s := text[start:end]
	if len(s) > MaxTerm {
		n := MaxTerm
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return append(out, Word{Term: strings.ToLower(norm.NFKC.String(s)), Start: start, End: end, Position: position, Whole: whole})
}

func isWord(r rune) bool {
	if r >= 0xfe00 && r <= 0xfe0f { // says how the character before it is drawn
		return false
	}
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

// isJoint reports whether c joins the parts of a path, a qualified name or an address.
func isJoint(c byte) bool { return strings.IndexByte("/\\.-:@", c) >= 0 }

// isSingle reports whether a character is a word of its own: of a script without spaces, or
// a picture. Lines and boxes are none.
func isSingle(r rune) bool {
	if r >= 0x2600 && r <= 0x27bf || r >= 0x1f000 && r <= 0x1faff {
		return true
	}
	return r >= 0xe00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
