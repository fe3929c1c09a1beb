package turns

import "nexus/turns/internal/cbor"

// The values of this package in CBOR, by a [cbor.Coder]. Each type of the format names its members
// once, in a method fields, in the order of their keys.

// body is what each type of a body has.
type body interface{ fields(*cbor.Coder) }

func ref(c *cbor.Coder, k byte, v *Ref) {
	if c.Member(k, !v.IsZero()) {
		pair(c, v)
		c.Set(k, v.IsZero())
	}
}

func pair(c *cbor.Coder, v *Ref) {
	c.Array(2)
	c.Fixed(v.Session[:])
	c.Fixed(v.Turn[:])
}

// raw is a JSON value as bytes. Writing, it is checked. Reading, it is not: [CheckBody].
func raw(c *cbor.Coder, k byte, v *Raw) { rawOf(c, k, v, 0) }

// rawOf is raw for a value whose first character is first: '{' or '['.
func rawOf(c *cbor.Coder, k byte, v *Raw, first byte) {
	if c.Member(k, len(*v) > 0) {
		jsonValue(c, v, first)
		c.Set(k, len(*v) == 0)
	}
}

// jsonValue is a JSON value whose first character is first, if that is not 0.
func jsonValue(c *cbor.Coder, v *Raw, first byte) {
	c.Binary((*[]byte)(v))
	if c.Reading() || len(*v) == 0 || c.Err() != nil {
		return
	}
	if err := checkJSON(*v); err != nil {
		c.Stop(err)
	} else if first != 0 && v.Kind() != first {
		c.Fail(ErrMalformed, "a JSON value that does not begin with %c", first)
	}
}

// object is a map that is left out where it is nil.
func object[T any, P interface {
	*T
	fields(*cbor.Coder)
}](c *cbor.Coder, k byte, v *P) {
	if c.Member(k, *v != nil) {
		if c.Reading() {
			*v = P(new(T))
		}
		(*v).fields(c)
	}
}

// objects is an array of maps. They are allocated as they are read, because a map in
// memory can be a hundred times its bytes.
func objects[T any, P interface {
	*T
	fields(*cbor.Coder)
}](c *cbor.Coder, k byte, v *[]T) {
	n := c.Length(k, len(*v))
	if c.Reading() && n > 0 {
		*v = make([]T, 0, min(n, 64))
	}
	for i := 0; i < n && c.Err() == nil; i++ {
		if c.Reading() {
			*v = append(*v, *new(T))
		}
		P(&(*v)[i]).fields(c)
	}
}
