package cbor

// Map is a map that is open: where its head is, and what the map around it had.
type Map struct {
	head  int
	pairs uint64
}

// Begin opens a map.
func (c *Coder) Begin() Map {
	p := Map{head: len(c.b), pairs: c.pairs}
	if c.reading {
		c.pairs = c.Head(5)
		return p
	}
	c.b, c.pairs = append(c.b, 0), 0 // the number of pairs follows
	return p
}

// End closes a map. Reading, a member that is left is one that the type has not: of a
// later build if its key is over last, the highest that the type has.
func (c *Coder) End(p Map, last uint64) {
	switch {
	case c.err != nil:
	case c.reading:
		if c.pairs > 0 {
			if k := c.Head(0); c.err == nil && k > last {
				c.Fail(ErrUnsupported, "a member with key %d, this build knows %d", k, last)
			} else {
				c.Fail(ErrMalformed, "a member that is unknown, twice, or not in its place")
			}
		}
	case c.pairs < 24:
		c.b[p.head] = 0xa0 | byte(c.pairs)
	default: // the number has a byte of its own
		c.b = append(c.b, 0)
		copy(c.b[p.head+2:], c.b[p.head+1:])
		c.b[p.head], c.b[p.head+1] = 0xb8, byte(c.pairs)
	}
	c.pairs = p.pairs
}

// Member reports whether the member with key k is there: it is written if present says
// so, and read if it comes next. Keys are under 256.
func (c *Coder) Member(k byte, present bool) bool {
	if c.err != nil {
		return false
	}
	if !c.reading {
		if present {
			c.b = appendHead(c.b, 0, uint64(k))
			c.pairs++
		}
		return present
	}
	n := 1
	if k >= 24 {
		n = 2
	}
	if c.pairs == 0 || len(c.b) < n || (n == 1 && c.b[0] != k) || (n == 2 && (c.b[0] != 24 || c.b[1] != k)) {
		return false
	}
	c.b = c.b[n:]
	c.pairs--
	return true
}

// Must is a member that is never left out.
func (c *Coder) Must(k byte) bool {
	if c.Member(k, true) {
		return true
	}
	c.Fail(ErrMalformed, "no member with key %d", k)
	return false
}

// Set refuses a member that was read and is zero: a writer leaves it out.
func (c *Coder) Set(k byte, zero bool) {
	if c.reading && zero {
		c.Fail(ErrMalformed, "member %d is there and empty", k)
	}
}

// Count is the member k, a number. It is left out where it is 0.
func (c *Coder) Count(k byte, v *uint64) {
	if c.Member(k, *v != 0) {
		c.Number(v)
		c.Set(k, *v == 0)
	}
}

// Time is the member k, a number that may be negative. It is left out where it is 0.
func (c *Coder) Time(k byte, v *int64) {
	if c.Member(k, *v != 0) {
		c.Signed(v)
		c.Set(k, *v == 0)
	}
}

// Bool is the member k, true. It is left out where it is false.
func (c *Coder) Bool(k byte, v *bool) {
	if !c.Member(k, *v) {
		return
	}
	if !c.reading {
		c.b = append(c.b, 0xf5)
		return
	}
	if len(c.b) == 0 || c.b[0] != 0xf5 {
		c.Fail(ErrMalformed, "member %d is there and not true", k)
		return
	}
	c.b, *v = c.b[1:], true
}

// Opaque is the member k, a byte string of the length of v. It is left out where all are 0.
func (c *Coder) Opaque(k byte, v []byte) {
	if c.Member(k, !zero(v)) {
		c.Fixed(v)
		c.Set(k, zero(v))
	}
}

// Bytes is the member k, a byte string. It is left out where it is empty.
func (c *Coder) Bytes(k byte, v *[]byte) {
	if c.Member(k, len(*v) > 0) {
		c.Binary(v)
		c.Set(k, len(*v) == 0)
	}
}

// Str is the member k, a text. It is left out where it is empty.
func Str[T ~string](c *Coder, k byte, v *T) {
	if c.Member(k, *v != "") {
		Text(c, v)
		c.Set(k, *v == "")
	}
}

// Small is the member k, a number up to 255. It is left out where it is 0.
func Small[T ~uint8](c *Coder, k byte, v *T) {
	if c.Member(k, *v != 0) {
		Octet(c, v)
		c.Set(k, *v == 0)
	}
}

// Length is the head of an array that is left out where it is empty: of n elements to
// write, or of as many as are to be read.
func (c *Coder) Length(k byte, n int) int {
	if !c.Member(k, n > 0) {
		return 0
	}
	if !c.reading {
		c.b = appendHead(c.b, 4, uint64(n))
		c.elements += uint64(n)
		return n
	}
	got := c.Elements()
	c.Set(k, got == 0)
	if c.err != nil {
		return 0
	}
	return int(got)
}

// Elements reads the head of an array, and returns how many elements it has.
func (c *Coder) Elements() uint64 {
	n := c.Head(4)
	if n > MaxElements-c.elements { // before anything is allocated for them
		c.Fail(ErrTooLarge, "the lists have more than %d elements", MaxElements)
		return 0
	}
	c.elements += n
	return n
}

// List is an array whose elements the caller codes; each takes at least size bytes, so
// nothing is allocated for more elements than there can be.
func List[T any](c *Coder, k byte, v *[]T, size int) []T {
	n := c.Length(k, len(*v))
	if c.reading && n > len(c.b)/size {
		c.Fail(ErrMalformed, "a list of %d elements in %d bytes", n, len(c.b))
		return nil
	}
	if c.reading && n > 0 {
		*v = make([]T, n)
	}
	return *v
}
