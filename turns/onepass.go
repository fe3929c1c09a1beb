package turns

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// pass reads JSON in one pass, and writes its canonical form or only checks it. The library takes three passes for the
// one, for syntax, strings and order, and looks at token after token for the other; both are done for each request that is stored.
// A pass knows what nearly all JSON consists of, and gives up at anything else, be it valid or not: the library is asked then.
// What it makes is what the library makes, and what it passes is what the library passes.
type pass struct {
	in     []byte // what is left to read
	writes bool
	keeps  bool   // what is written has its members in the order in which they came
	out    []byte // the form of what was read
	// scratch has the members of an object while they are put in order.
	scratch []byte
}

// canonicalForm returns the canonical form of data; nil where the library has to make it, or to refuse data.
func canonicalForm(data []byte) []byte {
	c := pass{in: data, writes: true, out: make([]byte, 0, len(data))}
	if !c.whole() {
		return nil
	}
	return c.out
}

// AppendRaw appends what [EncodeJSON] returns for a value to out: the value without white space, with the shortest
// escapes. Nil is null. Errors: those of EncodeJSON.
func AppendRaw(out []byte, r Raw) ([]byte, error) {
	c := pass{in: r, writes: true, keeps: true, out: out}
	if c.whole() {
		return c.out, nil
	}
	b, err := EncodeJSON(r)
	return append(out, b...), err
}

// IsSoundJSON reports whether data is one JSON value as [DecodeJSON] takes it. If not, it may still be one, which only a
// slower look tells.
func IsSoundJSON(data []byte) bool {
	c := pass{in: data}
	return c.whole()
}

// whole reads a value with nothing behind it. Like the methods below it reports false where it gives up.
func (c *pass) whole() bool {
	if !c.value(1) {
		return false
	}
	c.space()
	return len(c.in) == 0
}

// space passes over white space.
func (c *pass) space() {
	for len(c.in) > 0 && (c.in[0] == ' ' || c.in[0] == '\n' || c.in[0] == '\r' || c.in[0] == '\t') {
		c.in = c.in[1:]
	}
}

// next passes over white space, and over b behind it. It reports whether b was there.
func (c *pass) next(b byte) bool {
	c.space()
	if len(c.in) == 0 || c.in[0] != b {
		return false
	}
	c.in = c.in[1:]
	return true
}

// write writes a byte.
func (c *pass) write(b byte) {
	if c.writes {
		c.out = append(c.out, b)
	}
}

// advance passes over n bytes, and writes them.
func (c *pass) advance(n int) {
	if c.writes {
		c.out = append(c.out, c.in[:n]...)
	}
	c.in = c.in[n:]
}

// value reads the next value. An object or array is the depth-th around what it holds.
func (c *pass) value(depth int) bool {
	c.space()
	if len(c.in) == 0 {
		return false
	}
	switch b := c.in[0]; b {
	case '"':
		return c.str()
	case '{':
		return depth <= MaxNesting && c.object(depth)
	case '[':
		return depth <= MaxNesting && c.array(depth)
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	default:
		return c.number()
	}
}

func (c *pass) word(w string) bool {
	if len(c.in) < len(w) || string(c.in[:len(w)]) != w {
		return false
	}
	c.advance(len(w))
	return true
}

// number reads a number (RFC 8259, section 6). Its digits stay as they are.
func (c *pass) number() bool {
	b, n := c.in, 0
	digits := func() bool {
		from := n
		for n < len(b) && '0' <= b[n] && b[n] <= '9' {
			n++
		}
		return n > from
	}
	if b[0] == '-' {
		n++
	}
	if n < len(b) && b[n] == '0' {
		n++
	} else if !digits() {
		return false
	}
	if n < len(b) && b[n] == '.' {
		if n++; !digits() {
			return false
		}
	}
	if n < len(b) && b[n]|0x20 == 'e' {
		if n++; n < len(b) && (b[n] == '+' || b[n] == '-') {
			n++
		}
		if !digits() {
			return false
		}
	}
	c.advance(n)
	return true
}

// str reads a string. Where the form is written, the string must have it already: its escapes are the shortest.
func (c *pass) str() bool {
	n := 1
	for {
		n += PlainBytes(c.in[n:])
		if n >= len(c.in) {
			return false
		}
		if c.in[n] == '"' {
			n++
			if !utf8.Valid(c.in[:n]) {
				return false
			}
			c.advance(n)
			return true
		}
		size := escape(c.in[n:], c.writes)
		if size == 0 {
			return false
		}
		n += size
	}
}

// escape returns the bytes of the escape that b begins with; 0 if there is none, or none that a pass knows. shortest:
// it must be the shortest one of its character.
func escape(b []byte, shortest bool) int {
	if len(b) < 2 || b[0] != '\\' {
		return 0
	}
	switch b[1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 2
	case '/':
		if !shortest {
			return 2
		}
	case 'u':
		if len(b) < 6 {
			return 0
		}
		unit, lower := 0, true
		for _, d := range b[2:6] {
			switch {
			case '0' <= d && d <= '9':
				unit = unit<<4 | int(d-'0')
			case 'a' <= d && d <= 'f':
				unit = unit<<4 | int(d-'a'+10)
			case 'A' <= d && d <= 'F':
				unit, lower = unit<<4|int(d-'A'+10), false
			default:
				return 0
			}
		}
		isShortest := lower && unit < ' ' && unit != '\b' && unit != '\f' && unit != '\n' && unit != '\r' && unit != '\t'
		if isShortest || !shortest && (unit < 0xd800 || unit >= 0xe000) {
			return 6
		}
	}
	return 0
}

func (c *pass) array(depth int) bool {
	c.advance(1)
	for first := true; !c.next(']'); first = false {
		if !first {
			if !c.next(',') {
				return false
			}
			c.write(',')
		}
		if !c.value(depth + 1) {
			return false
		}
	}
	c.write(']')
	return true
}

// member is a member of an object: its name, and where it is in the output.
type member struct {
	name     []byte
	from, to int
}

func (c *pass) object(depth int) bool {
	c.advance(1)
	var few [12]member
	members, sorted := few[:0], true
	begin := len(c.out)
	for !c.next('}') {
		if len(members) > 0 {
			if !c.next(',') {
				return false
			}
			c.write(',')
		}
		m := member{from: len(c.out)}
		c.space()
		at := c.in
		if len(at) == 0 || at[0] != '"' || !c.str() {
			return false
		}
		m.name = at[1 : len(at)-len(c.in)-1]
		for _, b := range m.name {
			if b == '\\' || b >= utf8.RuneSelf { // two spellings of one name, and an order that is that of UTF-16
				return false
			}
		}
		if !c.next(':') {
			return false
		}
		c.write(':')
		if !c.value(depth + 1) {
			return false
		}
		m.to = len(c.out)
		if len(members) > 0 {
			sorted = sorted && bytes.Compare(members[len(members)-1].name, m.name) < 0
		}
		members = append(members, m)
	}
	if !sorted && !c.sort(members, begin) {
		return false
	}
	c.write('}')
	return true
}

// sort puts the members of an object in order, whose first is at begin in the output.
func (c *pass) sort(members []member, begin int) bool {
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	c.scratch = c.scratch[:0]
	for i, m := range members {
		if i > 0 && bytes.Equal(members[i-1].name, m.name) { // the library says which
			return false
		}
		if !c.writes || c.keeps {
			continue
		}
		if i > 0 {
			c.scratch = append(c.scratch, ',')
		}
		c.scratch = append(c.scratch, c.out[m.from:m.to]...)
	}
	copy(c.out[begin:], c.scratch)
	return true
}

// PlainBytes returns how many bytes at the beginning of b stand for themselves in a string of JSON: all but quotes,
// backslashes and control characters. It looks at eight at a time.
func PlainBytes(b []byte) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(b); n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		quote, backslash := x^each*'"', x^each*'\\'
		// A difference sets the high bit of a byte that is less than what is taken from it, and maybe of some behind that one.
		if ((x-each*' ')&^x|(quote-each)&^quote|(backslash-each)&^backslash)&high != 0 {
			break
		}
	}
	for ; n < len(b); n++ {
		if c := b[n]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return n
}
