package tokens

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is cut into pieces first, and no token goes over the end of one. What
// o200k_base takes for a piece is, the first that fits:
//
//	1  one character that is no letter, number or line end, or none; capitals
//	   or none; small letters, one at least; an English contraction or none
//	2  the same, with capitals, one at least, and small letters or none
//	3  one to three numbers
//	4  a space or none; characters that are neither letter, number nor white
//	   space, one at least; line ends and slashes
//	5  white space up to its last line end
//	6  white space at the end of the text; elsewhere all but its last character
//	7  white space
//
// Letters without case and marks are both capital and small. The definition is
// a regular expression with backtracking; here a character is looked at a few
// times at most, whatever follows it.
type class uint8

const (
	symbol class = iota // whatever isn't below
	upper               // Lu, Lt
	lower               // Ll
	letter              // Lm, Lo: upper and lower
	mark                // M: as letter, but may begin a piece before others
	number              // N
	space
	lineEnd // \r, \n
)

// classes is the class of each character under U+10000.
type classes [1 << 16]class

func newClasses() *classes {
	c := new(classes)
	for r := range rune(len(c)) {
		c[r] = classOf(r)
	}
	return c
}

func classOf(r rune) class {
	switch {
	case r == '\r' || r == '\n':
		return lineEnd
	case unicode.IsSpace(r):
		return space
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.In(r, unicode.Lm, unicode.Lo):
		return letter
	case unicode.Is(unicode.M, r):
		return mark
	case unicode.Is(unicode.N, r):
		return number
	}
	return symbol
}

// at is the class of the character that begins at s[i], and its bytes.
func (c *classes) at(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return c[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	if int(r) < len(c) {
		return c[r], n
	}
	return classOf(r), n
}

// piece is the length in bytes of the first piece of s, which isn't empty.
func (c *classes) piece(s string) int {
	first, n := c.at(s, 0)
	switch first {
	case upper, lower, letter:
		end, _ := c.word(s, 0)
		return contraction(s, end)
	case number:
		return c.numbers(s, n)
	case mark:
		// It begins a word of small letters that follow; before capitals
		// alone it is a word itself.
		if end, small := c.word(s, n); small {
			return contraction(s, end)
		}
		return contraction(s, n)
	case symbol:
		if end, _ := c.word(s, n); end > n {
			return contraction(s, end)
		}
		return slashes(s, c.symbols(s, n))
	case space:
		if end, _ := c.word(s, n); end > n {
			return contraction(s, end)
		}
		if s[0] == ' ' {
			if end := c.symbols(s, n); end > n {
				return slashes(s, end)
			}
		}
	}
	return c.blank(s)
}

// word is where the word that begins at i ends, i for none; small says that
// it is one of the first kind, not of capitals alone.
func (c *classes) word(s string, i int) (end int, small bool) {
	caseless := i // after the last letter without case among the capitals
	for i < len(s) {
		k, n := c.at(s, i)
		switch k {
		case lower:
			return c.small(s, i+n), true
		case letter, mark:
			i += n
			caseless = i
			small = true
		case upper:
			i += n
		default:
			n = 0
		}
		if n == 0 {
			break
		}
	}
	if small {
		return caseless, true // the capitals after it are of the next piece
	}
	return i, false
}

// small is the end of the small letters from i on.
func (c *classes) small(s string, i int) int {
	for i < len(s) {
		k, n := c.at(s, i)
		if k != lower && k != letter && k != mark {
			break
		}
		i += n
	}
	return i
}

// contraction is end, or the end of 's, 't, 're, 've, 'm, 'll or 'd there.
func contraction(s string, end int) int {
	if end+1 >= len(s) || s[end] != '\'' {
		return end
	}
	rest := s[end+1:]
	switch rest[0] | 0x20 {
	case 's', 't', 'm', 'd':
		return end + 2
	}
	if strings.HasPrefix(rest, "ſ") { // another s, where case is ignored
		return end + 1 + len("ſ")
	}
	if len(rest) >= 2 {
		switch string([]byte{rest[0] | 0x20, rest[1] | 0x20}) {
		case "re", "ve", "ll":
			return end + 3
		}
	}
	return end
}

// numbers is the end of up to three numbers, the first of n bytes.
func (c *classes) numbers(s string, n int) int {
	for range 2 {
		if n == len(s) {
			break
		}
		k, width := c.at(s, n)
		if k != number {
			break
		}
		n += width
	}
	return n
}

// symbols is the end of the symbols and marks from i on.
func (c *classes) symbols(s string, i int) int {
	for i < len(s) {
		k, n := c.at(s, i)
		if k != symbol && k != mark {
			break
		}
		i += n
	}
	return i
}

// slashes is the end of the line ends and slashes from i on.
func slashes(s string, i int) int {
	for i < len(s) && (s[i] == '\r' || s[i] == '\n' || s[i] == '/') {
		i++
	}
	return i
}

// blank is the length of the piece of white space that s begins with.
func (c *classes) blank(s string) int {
	end, last, lines := 0, 0, 0 // last: before the last character; lines: after the last line end
	for end < len(s) {
		k, n := c.at(s, end)
		if k != space && k != lineEnd {
			break
		}
		last = end
		end += n
		if k == lineEnd {
			lines = end
		}
	}
	switch {
	case lines > 0:
		return lines
	case end == len(s) || last == 0:
		return end
	}
	return last
}
