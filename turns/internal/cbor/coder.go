package cbor

import (
	"errors"
	"fmt"
)

// The kinds of errors of a [Coder], which package turns has as its own.
var (
	ErrMalformed   = errors.New("malformed")
	ErrUnsupported = errors.New("unsupported")
	ErrTooLarge    = errors.New("too large")
)

// MaxElements is how many elements the arrays of variable length together may have. It bounds
// what reading allocates: an empty element takes one byte in CBOR and a few hundred in memory.
const MaxElements = 1 << 18

// Coder writes or reads CBOR in its deterministic form (RFC 8949 section 4.2.1). Each
// type of a format names its members once, in the order of their keys; the same calls
// write them and read them. So an encoder and a decoder that
// disagree can't be written, and a reader needs no second encoding to compare: it takes a
// member only at its place, in its shortest form, and not at all where it is zero and a
// writer would have left it out.
//
// After an error a Coder does nothing more, and Err is the first one.
type Coder struct {
	b        []byte // writing: what is written; reading: what is left
	reading  bool
	err      error
	size     int    // reading: of all there was
	pairs    uint64 // of the map that is open: written so far, or left to read
	elements uint64 // of all arrays of variable length so far
}

// Writer returns a Coder that writes, with room for so many bytes.
func Writer(capacity int) *Coder { return &Coder{b: make([]byte, 0, capacity)} }

// Reader returns a Coder that reads b.
func Reader(b []byte) *Coder { return &Coder{b: b, reading: true, size: len(b)} }

// Fail keeps the first error: that of kind at the place that was reached.
func (c *Coder) Fail(kind error, format string, args ...any) {
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

// Stop makes err the error, if there is none yet.
func (c *Coder) Stop(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Err returns the first error.
func (c *Coder) Err() error { return c.err }

// Reading reports whether c reads.
func (c *Coder) Reading() bool { return c.reading }

// Written returns what is written, and how many elements its arrays of variable length have.
func (c *Coder) Written() (b []byte, elements uint64) { return c.b, c.elements }

// At returns the offset of what is read next.
func (c *Coder) At() int { return c.size - len(c.b) }

// Skip passes over an item.
func (c *Coder) Skip() {
	if n := Skip(c.b); n == 0 {
		c.Fail(ErrMalformed, "no item")
	} else {
		c.b = c.b[n:]
	}
}
