package cbor

import (
	"bytes"
	"unicode/utf8"
)

// Number is a number from 0.
func (c *Coder) Number(v *uint64) {
	if c.reading {
		*v = c.Head(0)
	} else {
		c.b = appendHead(c.b, 0, *v)
	}
}

// Signed is a number.
func (c *Coder) Signed(v *int64) {
	if !c.reading {
		if *v < 0 {
			c.b = appendHead(c.b, 1, uint64(^*v))
		} else {
			c.b = appendHead(c.b, 0, uint64(*v))
		}
		return
	}
	major := byte(0)
	if len(c.b) > 0 && c.b[0]>>5 == 1 {
		major = 1
	}
	n := c.Head(major)
	if n > 1<<63-1 {
		c.Fail(ErrMalformed, "a number that does not fit")
	}
	if *v = int64(n); major == 1 {
		*v = ^int64(n)
	}
}

// Octet is a number up to 255.
func Octet[T ~uint8](c *Coder, v *T) {
	n := uint64(*v)
	if c.Number(&n); n > 255 {
		c.Fail(ErrMalformed, "%d is over 255", n)
	}
	*v = T(n)
}

// Array is the head of an array of n values, always the same number.
func (c *Coder) Array(n uint64) {
	if !c.reading {
		c.b = appendHead(c.b, 4, n)
	} else if got := c.Head(4); got != n {
		c.Fail(ErrMalformed, "an array of %d values, not %d", got, n)
	}
}

// Fixed is a byte string of the length of v.
func (c *Coder) Fixed(v []byte) {
	if !c.reading {
		c.b = appendBytes(c.b, v)
	} else if got := c.take(c.Head(2)); c.err == nil && len(got) != len(v) {
		c.Fail(ErrMalformed, "%d bytes, not %d", len(got), len(v))
	} else {
		copy(v, got)
	}
}

// Binary is a byte string.
func (c *Coder) Binary(v *[]byte) {
	if c.reading {
		*v = bytes.Clone(c.take(c.Head(2)))
	} else {
		c.b = appendBytes(c.b, *v)
	}
}

// Text is a text in UTF-8.
func Text[T ~string](c *Coder, v *T) {
	if !c.reading {
		c.b = appendText(c.b, string(*v))
		if !utf8.ValidString(string(*v)) {
			c.Fail(ErrMalformed, "a text that is not UTF-8")
		}
		return
	}
	b := c.take(c.Head(3))
	if !utf8.Valid(b) {
		c.Fail(ErrMalformed, "a text that is not UTF-8")
	}
	*v = T(b)
}

// Head reads the head of an item of a major type and returns its argument, in the
// shortest form only.
func (c *Coder) Head(major byte) (n uint64) {
	if c.err != nil {
		return 0
	}
	if len(c.b) == 0 || c.b[0]>>5 != major {
		c.Fail(ErrMalformed, "no item of major type %d", major)
		return 0
	}
	n, size := ItemHead(c.b)
	if size == 0 {
		c.Fail(ErrMalformed, "the head of an item that is cut, or not in its shortest form")
		return 0
	}
	c.b = c.b[size:]
	return n
}

func (c *Coder) take(n uint64) []byte {
	if c.err != nil {
		return nil
	}
	if n > uint64(len(c.b)) {
		c.Fail(ErrMalformed, "%d bytes are announced, %d are left", n, len(c.b))
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

// Done is the error of reading all there was.
func (c *Coder) Done() error {
	if len(c.b) > 0 {
		c.Fail(ErrMalformed, "%d bytes too many", len(c.b))
	}
	return c.err
}
