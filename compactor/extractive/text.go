package extractive

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"nexus/compactor/summary"
)

// Bounds on the text that is read, in bytes. Of a long text only the head and the
// tail are read: they say what a paste or a log is about.
const (
	maxUnit   = 420       // of one unit, which is clipped
	headText  = 48 << 10  // of a text that is cut into units
	tailText  = 16 << 10  // likewise
	headFacts = 192 << 10 // of a text that is scanned for facts
	tailFacts = 64 << 10  // likewise
)

// ends returns s without its middle if it is longer than head and tail together. The
// results may begin or end inside a rune.
func ends(s string, head, tail int) (first, last string) {
	if len(s) <= head+tail {
		return s, ""
	}
	return s[:head], s[len(s)-tail:]
}

// units cuts a text into sentences, line by line. It skips fenced code, whose lines
// say little alone and whose identifiers the inventory counts.
func units(s string, found func(text string)) {
	head, tail := ends(s, headText, tailText)
	fenced := false
	for _, part := range [...]string{head, tail} {
		for line := range strings.SplitSeq(part, "\n") {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
				continue
			}
			if fenced || line == "" {
				continue
			}
			unitsOfLine(line, found)
		}
	}
}

func unitsOfLine(line string, found func(string)) {
	give := func(s string) {
		if s = oneLine(s, maxUnit); lettersIn(s) > 1 {
			found(s)
		}
	}
	if len(line) < 80 {
		give(line)
		return
	}
	summary.EachSentence(line, give)
}

// lettersIn counts letters and digits, up to 4.
func lettersIn(s string) (n int) {
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			if n++; n == 4 {
				break
			}
		}
	}
	return n
}

// oneLine returns s as one line of at most limit bytes plus an ellipsis. It folds
// white space and drops control characters, terminal sequences, and marks that
// change the direction of text. The result is always valid UTF-8 without a line
// break.
func oneLine(s string, limit int) string {
	var b strings.Builder
	b.Grow(min(len(s), limit) + 4)
	space := false
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == 0x1b:
			n = escapeLen(s[i:])
		case unicode.IsSpace(r):
			space = b.Len() > 0
		case r == utf8.RuneError && n == 1, unicode.IsControl(r), turnsDirection(r):
		default:
			if b.Len()+n+1 > limit {
				return b.String() + "…"
			}
			if space {
				b.WriteByte(' ')
				space = false
			}
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// escapeLen returns the length of the terminal sequence that s begins with.
func escapeLen(s string) int {
	if len(s) < 2 || s[1] != '[' {
		return 1
	}
	for i := 2; i < len(s) && i < 32; i++ {
		if s[i] >= 0x40 && s[i] <= 0x7e {
			return i + 1
		}
	}
	return 2
}

func turnsDirection(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// withoutSequences returns s without terminal sequences.
func withoutSequences(s string) string {
	i := strings.IndexByte(s, 0x1b)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i >= 0 {
		b.WriteString(s[:i])
		s = s[i+escapeLen(s[i:]):]
		i = strings.IndexByte(s, 0x1b)
	}
	b.WriteString(s)
	return b.String()
}
