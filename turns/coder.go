package turns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// coder writes or reads CBOR in its deterministic form (RFC 8949 section 4.2.1). Each
// type of the format names its members once, in a method fields, in the order of their
// keys; the same method writes them and reads them. So an encoder and a decoder that
// disagree can't be written, and a reader needs no second encoding to compare: it takes a
// member only at its place, in its shortest form, and not at all where it is zero and a
// writer would have left it out.
//
// After an error a coder does nothing more, and err is the first one.
type coder struct {
	b        []byte // writing: what is written; reading: what is left
	reading  bool
	err      error
	size     int    // reading: of all there was
	pairs    uint64 // of the map that is open: written so far, or left to read
	elements uint64 // of all arrays of variable length so far
}

func writer(capacity int) *coder { return &coder{b: make([]byte, 0, capacity)} }

func reader(b []byte) *coder { return &coder{b: b, reading: true, size: len(b)} }

// fail keeps the first error: that of kind at the place that was reached.
func (c *coder) fail(kind error, format string, args ...any) {
	if c.err != nil {
		return
	}
	reason := fmt.Sprintf(format, args...)
	if c.reading {
		c.err = fmt.Errorf("%w: at byte %d: %s", kind, c.size-len(c.b), reason)
		return
	}
	c.err = fmt.Errorf("%w: %s", kind, reason)
}

// openMap is a map that is open: where its head is, and what the map around it had.
type openMap struct {
	head  int
	pairs uint64
}

// begin opens a map.
func (c *coder) begin() openMap {
	p := openMap{head: len(c.b), pairs: c.pairs}
	if c.reading {
		c.pairs = c.head(5)
		return p
	}
	c.b, c.pairs = append(c.b, 0), 0 // the number of pairs follows
	return p
}

// end closes a map. Reading, a member that is left is one that the type has not: of a
// later build if its key is over last, the highest that the type has.
func (c *coder) end(p openMap, last uint64) {
	switch {
	case c.err != nil:
	case c.reading:
		if c.pairs > 0 {
			if k := c.head(0); c.err == nil && k > last {
				c.fail(ErrUnsupported, "a member with key %d, this build knows %d", k, last)
			} else {
				c.fail(ErrMalformed, "a member that is unknown, twice, or not in its place")
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

// member reports whether the member with key k is there: it is written if present says
// so, and read if it comes next. Keys are under 256.
func (c *coder) member(k byte, present bool) bool {
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

// must is a member that is never left out.
func (c *coder) must(k byte) bool {
	if c.member(k, true) {
		return true
	}
	c.fail(ErrMalformed, "no member with key %d", k)
	return false
}

// set refuses a member that was read and is zero: a writer leaves it out.
func (c *coder) set(k byte, zero bool) {
	if c.reading && zero {
		c.fail(ErrMalformed, "member %d is there and empty", k)
	}
}

// The members that are left out where they are zero.

func (c *coder) count(k byte, v *uint64) {
	if c.member(k, *v != 0) {
		c.number(v)
		c.set(k, *v == 0)
	}
}

func (c *coder) time(k byte, v *int64) {
	if c.member(k, *v != 0) {
		c.signed(v)
		c.set(k, *v == 0)
	}
}

func (c *coder) bool(k byte, v *bool) {
	if !c.member(k, *v) {
		return
	}
	if !c.reading {
		c.b = append(c.b, 0xf5)
		return
	}
	if len(c.b) == 0 || c.b[0] != 0xf5 {
		c.fail(ErrMalformed, "member %d is there and not true", k)
		return
	}
	c.b, *v = c.b[1:], true
}

func (c *coder) id(k byte, v *ID)     { c.opaque(k, v[:]) }
func (c *coder) hash(k byte, v *Hash) { c.opaque(k, v[:]) }

// opaque is a byte string of the length of v.
func (c *coder) opaque(k byte, v []byte) {
	if c.member(k, !zero(v)) {
		c.fixed(v)
		c.set(k, zero(v))
	}
}

func (c *coder) ref(k byte, v *Ref) {
	if c.member(k, !v.IsZero()) {
		c.pair(v)
		c.set(k, v.IsZero())
	}
}

func (c *coder) bytes(k byte, v *[]byte) {
	if c.member(k, len(*v) > 0) {
		c.binary(v)
		c.set(k, len(*v) == 0)
	}
}

// raw is a JSON value as bytes. Writing, it is checked. Reading, it is not: [CheckBody].
func (c *coder) raw(k byte, v *Raw) { c.rawOf(k, v, 0) }

// rawOf is raw for a value whose first character is first: '{' or '['.
func (c *coder) rawOf(k byte, v *Raw, first byte) {
	if c.member(k, len(*v) > 0) {
		c.json(v, first)
		c.set(k, len(*v) == 0)
	}
}

func str[T ~string](c *coder, k byte, v *T) {
	if c.member(k, *v != "") {
		text(c, v)
		c.set(k, *v == "")
	}
}

func small[T ~uint8](c *coder, k byte, v *T) {
	if c.member(k, *v != 0) {
		octet(c, v)
		c.set(k, *v == 0)
	}
}

// object is a map that is left out where it is nil.
func object[T any, P interface {
	*T
	fields(*coder)
}](c *coder, k byte, v *P) {
	if c.member(k, *v != nil) {
		if c.reading {
			*v = P(new(T))
		}
		(*v).fields(c)
	}
}

// length is the head of an array that is left out where it is empty: of n elements to
// write, or of as many as are to be read.
func (c *coder) length(k byte, n int) int {
	if !c.member(k, n > 0) {
		return 0
	}
	if !c.reading {
		c.b = appendHead(c.b, 4, uint64(n))
		c.elements += uint64(n)
		return n
	}
	got := c.head(4)
	if got > MaxElements-c.elements {
		c.fail(ErrTooLarge, "the lists have more than %d elements", MaxElements)
	}
	c.set(k, got == 0)
	if c.err != nil {
		return 0
	}
	c.elements += got
	return int(got)
}

// list is an array whose elements the caller codes; each takes at least size bytes, so
// nothing is allocated for more elements than there can be.
func list[T any](c *coder, k byte, v *[]T, size int) []T {
	n := c.length(k, len(*v))
	if c.reading && n > len(c.b)/size {
		c.fail(ErrMalformed, "a list of %d elements in %d bytes", n, len(c.b))
		return nil
	}
	if c.reading && n > 0 {
		*v = make([]T, n)
	}
	return *v
}

// objects is an array of maps. They are allocated as they are read, because a map in
// memory can be a hundred times its bytes.
func objects[T any, P interface {
	*T
	fields(*coder)
}](c *coder, k byte, v *[]T) {
	n := c.length(k, len(*v))
	if c.reading && n > 0 {
		*v = make([]T, 0, min(n, 64))
	}
	for i := 0; i < n && c.err == nil; i++ {
		if c.reading {
			*v = append(*v, *new(T))
		}
		P(&(*v)[i]).fields(c)
	}
}

// The values.

func (c *coder) number(v *uint64) {
	if c.reading {
		*v = c.head(0)
	} else {
		c.b = appendHead(c.b, 0, *v)
	}
}

func (c *coder) signed(v *int64) {
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
	n := c.head(major)
	if n > 1<<63-1 {
		c.fail(ErrMalformed, "a number that does not fit")
	}
	if *v = int64(n); major == 1 {
		*v = ^int64(n)
	}
}

func octet[T ~uint8](c *coder, v *T) {
	n := uint64(*v)
	if c.number(&n); n > 255 {
		c.fail(ErrMalformed, "%d is over 255", n)
	}
	*v = T(n)
}

// array is the head of an array of n values, always the same number.
func (c *coder) array(n uint64) {
	if !c.reading {
		c.b = appendHead(c.b, 4, n)
	} else if got := c.head(4); got != n {
		c.fail(ErrMalformed, "an array of %d values, not %d", got, n)
	}
}

func (c *coder) fixed(v []byte) {
	if !c.reading {
		c.b = appendBytes(c.b, v)
	} else if got := c.take(c.head(2)); c.err == nil && len(got) != len(v) {
		c.fail(ErrMalformed, "%d bytes, not %d", len(got), len(v))
	} else {
		copy(v, got)
	}
}

func (c *coder) pair(v *Ref) {
	c.array(2)
	c.fixed(v.Session[:])
	c.fixed(v.Turn[:])
}

func (c *coder) binary(v *[]byte) {
	if c.reading {
		*v = bytes.Clone(c.take(c.head(2)))
	} else {
		c.b = appendBytes(c.b, *v)
	}
}

// json is a JSON value whose first character is first, if that is not 0.
func (c *coder) json(v *Raw, first byte) {
	c.binary((*[]byte)(v))
	if c.reading || len(*v) == 0 || c.err != nil {
		return
	}
	if c.err = checkJSON(*v); c.err == nil && first != 0 && v.Kind() != first {
		c.fail(ErrMalformed, "a JSON value that does not begin with %c", first)
	}
}

func text[T ~string](c *coder, v *T) {
	if !c.reading {
		c.b = appendText(c.b, string(*v))
		if !utf8.ValidString(string(*v)) {
			c.fail(ErrMalformed, "a text that is not UTF-8")
		}
		return
	}
	b := c.take(c.head(3))
	if !utf8.Valid(b) {
		c.fail(ErrMalformed, "a text that is not UTF-8")
	}
	*v = T(b)
}

// head reads the head of an item of a major type and returns its argument, in the
// shortest form only.
func (c *coder) head(major byte) (n uint64) {
	if c.err != nil {
		return 0
	}
	if len(c.b) == 0 || c.b[0]>>5 != major {
		c.fail(ErrMalformed, "no item of major type %d", major)
		return 0
	}
	n, size := itemHead(c.b)
	if size == 0 {
		c.fail(ErrMalformed, "the head of an item that is cut, or not in its shortest form")
		return 0
	}
	c.b = c.b[size:]
	return n
}

func (c *coder) take(n uint64) []byte {
	if c.err != nil {
		return nil
	}
	if n > uint64(len(c.b)) {
		c.fail(ErrMalformed, "%d bytes are announced, %d are left", n, len(c.b))
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

// done is the error of reading all there was.
func (c *coder) done() error {
	if len(c.b) > 0 {
		c.fail(ErrMalformed, "%d bytes too many", len(c.b))
	}
	return c.err
}

// itemHead is the argument of the item that b begins with, and the size of its head: 0
// for one that is cut or not in its shortest form.
func itemHead(b []byte) (n uint64, size int) {
	if len(b) == 0 {
		return 0, 0
	}
	short := b[0] & 31
	if short < 24 {
		return uint64(short), 1
	}
	if short > 27 || len(b) <= 1<<(short-24) {
		return 0, 0
	}
	var least uint64 // of what needs so many bytes
	switch short {
	case 24:
		n, size, least = uint64(b[1]), 2, 24
	case 25:
		n, size, least = uint64(binary.BigEndian.Uint16(b[1:])), 3, 1<<8
	case 26:
		n, size, least = uint64(binary.BigEndian.Uint32(b[1:])), 5, 1<<16
	case 27:
		n, size, least = binary.BigEndian.Uint64(b[1:]), 9, 1<<32
	}
	if n < least {
		return 0, 0
	}
	return n, size
}

// maxDepth is how deep maps and arrays nest at most in what [skip] passes over.
const maxDepth = 16

// skip is the length of the item that b begins with: maps, arrays, numbers, strings and
// true, nested at most depth deep. 0: it is none of these, or cut.
func skip(b []byte, depth int) int {
	if len(b) == 0 || depth == 0 {
		return 0
	}
	if b[0] == 0xf5 {
		return 1
	}
	arg, n := itemHead(b)
	if n == 0 {
		return 0
	}
	switch b[0] >> 5 {
	case 0, 1:
		return n
	case 2, 3:
		if arg > uint64(len(b)-n) {
			return 0
		}
		return n + int(arg)
	case 4, 5:
		if arg > uint64(len(b)) {
			return 0
		}
		if b[0]>>5 == 5 {
			arg *= 2
		}
		for range arg {
			size := skip(b[n:], depth-1)
			if size == 0 {
				return 0
			}
			n += size
		}
		return n
	}
	return 0
}

func zero(b []byte) bool {
	var any byte
	for _, x := range b {
		any |= x
	}
	return any == 0
}

// appendHead appends the head of a CBOR item: its major type and its number in the
// shortest form.
func appendHead(b []byte, major byte, n uint64) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}

func appendBytes(b, v []byte) []byte { return append(appendHead(b, 2, uint64(len(v))), v...) }

func appendText(b []byte, s string) []byte { return append(appendHead(b, 3, uint64(len(s))), s...) }
