package highlight

import (
	"strings"
	"unicode/utf8"
)

// syntax is what a language looks like.
type syntax struct {
	comment []string // begins a comment that ends with its line
	block   [2]string
	quotes  []quote // the longest first
	words   map[string]bool
	types   map[string]bool // names that it has of its own
	// anyCase: words are the same in capitals.
	anyCase bool
	// loose: a comment begins at the beginning of a line or behind a space alone, as in a shell.
	loose bool
	// keys: a name or a string before one of these bytes is a key.
	keys string
	// extra are bytes of names besides letters, digits and _.
	extra string
	lines func(line string) string // if not nil, the class of each line, and nothing else counts
	tags  bool                     // names and strings count between < and > only
}

// quote begins and ends a string.
type quote struct {
	open, close string
	raw         bool // a backslash is a backslash
	long        bool // it may have several lines
}

// scanner reads a text from its beginning to its end, once.
type scanner struct {
	*syntax
	text  string
	at    int
	plain int // where the text that has no colour begins
	inTag bool
	out   []run
}

// runs returns text in pieces.
func (s *syntax) runs(text string) []run {
	c := &scanner{syntax: s, text: text}
	if s.lines != nil {
		for line := range strings.Lines(text) {
			c.out = append(c.out, run{s.lines(line), line})
		}
		return c.out
	}
	for c.at < len(text) {
		c.next()
	}
	c.emit("", len(text))
	return c.out
}

// emit ends the text without colour, and adds what lies between the place of the scanner and end.
func (c *scanner) emit(class string, end int) {
	if class == "" {
		c.at = end
		if c.at == len(c.text) && c.plain < c.at {
			c.out = append(c.out, run{"", c.text[c.plain:]})
			c.plain = c.at
		}
		return
	}
	if c.plain < c.at {
		c.out = append(c.out, run{"", c.text[c.plain:c.at]})
	}
	c.out = append(c.out, run{class, c.text[c.at:end]})
	c.at, c.plain = end, end
}

// next reads one piece.
func (c *scanner) next() {
	rest := c.text[c.at:]
	if c.block[0] != "" && strings.HasPrefix(rest, c.block[0]) {
		c.emit("c", c.at+len(c.block[0])+until(rest[len(c.block[0]):], c.block[1]))
		return
	}
	if c.tags && !c.inTag {
		c.betweenTags(rest)
		return
	}
	if n := c.commentOf(rest); n > 0 {
		c.emit("c", c.at+n)
		return
	}
	for _, q := range c.quotes {
		if strings.HasPrefix(rest, q.open) {
			end := c.at + q.length(rest)
			if c.isKey(end) {
				c.emit("f", end)
			} else {
				c.emit("s", end)
			}
			return
		}
	}
	switch n := c.name(rest); {
	case n == 0 && c.tags && rest[0] == '>':
		c.inTag = false
		c.emit("", c.at+1)
	case n == 0:
		_, size := utf8.DecodeRuneInString(rest)
		c.emit("", c.at+size)
	case c.tags:
		c.emit("f", c.at+n)
	case rest[0] >= '0' && rest[0] <= '9':
		c.emit("n", c.at+n)
	default:
		c.emit(c.classOf(rest[:n], c.at+n), c.at+n)
	}
}

// betweenTags reads up to a tag, and its name.
func (c *scanner) betweenTags(rest string) {
	i := strings.IndexByte(rest, '<')
	switch {
	case i < 0:
		c.emit("", len(c.text))
	case i > 0:
		c.emit("", c.at+i)
	default:
		n := 1
		if n < len(rest) && strings.IndexByte("/?!", rest[n]) >= 0 {
			n++
		}
		name := c.name(rest[n:])
		c.emit("", c.at+n)
		if c.inTag = name > 0; c.inTag {
			c.emit("k", c.at+name)
		}
	}
}

// commentOf returns the length of the comment that rest begins with, up to its line's end; 0: none.
func (c *scanner) commentOf(rest string) int {
	for _, p := range c.comment {
		if strings.HasPrefix(rest, p) && (!c.loose || c.at == 0 || isSpace(c.text[c.at-1])) {
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				return n
			}
			return len(rest)
		}
	}
	return 0
}

// classOf is the class of a name that ends at end.
func (c *scanner) classOf(name string, end int) string {
	if c.anyCase {
		name = strings.ToLower(name)
	}
	switch {
	case c.isKey(end):
		return "f"
	case c.words[name] && !c.isMember():
		return "k"
	case c.types[name] && !c.isMember():
		return "t"
	case end < len(c.text) && c.text[end] == '(':
		return "f"
	}
	return ""
}

// isMember reports whether a dot stands before the place of the scanner, as in self.open.
func (c *scanner) isMember() bool {
	return c.at > 1 && c.text[c.at-1] == '.' && !isSpace(c.text[c.at-2]) && c.text[c.at-2] != '.'
}

// isKey reports whether what ends at end is a key: a byte of keys follows it, and a space that.
func (c *scanner) isKey(end int) bool {
	rest := strings.TrimLeft(c.text[end:min(end+8, len(c.text))], " \t")
	return rest != "" && strings.IndexByte(c.keys, rest[0]) >= 0 && (rest[0] != ':' || len(rest) == 1 || isSpace(rest[1]) || strings.IndexByte(`"[{0123456789-tfn`, rest[1]) >= 0)
}

// name returns the length of the name or number that rest begins with; 0: none.
func (c *scanner) name(rest string) (n int) {
	for n < len(rest) {
		b := rest[n]
		if b == '_' || b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z' || b >= utf8.RuneSelf || strings.IndexByte(c.extra, b) >= 0 ||
			b == '.' && n > 0 && rest[0] >= '0' && rest[0] <= '9' {
			n++
			continue
		}
		break
	}
	return n
}

// length is that of the string that rest begins with, its quotes included. One that does not end has its
// line, or the rest of the text where it may have several.
func (q quote) length(rest string) int {
	for i := len(q.open); i < len(rest); i++ {
		switch {
		case strings.HasPrefix(rest[i:], q.close):
			return i + len(q.close)
		case rest[i] == '\\' && !q.raw:
			i++
		case rest[i] == '\n' && !q.long:
			return i
		}
	}
	return len(rest)
}

// until returns the length of rest up to the end of mark, all of it if it has none.
func until(rest, mark string) int {
	if i := strings.Index(rest, mark); i >= 0 {
		return i + len(mark)
	}
	return len(rest)
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }
