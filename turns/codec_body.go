package turns

import (
	"fmt"
	"reflect"

	"nexus/turns/internal/cbor"
)

// EncodeBody is the deterministic CBOR of a body, or of a [Message] or [Preamble], which
// v points at. It never returns bytes that [DecodeBody] refuses, nor a [Raw] that is not
// one JSON value: a reader of the ledger would trip over it for ever.
// Errors: [ErrMalformed], [ErrTooLarge].
func EncodeBody(v any) ([]byte, error) {
	b, ok := v.(body)
	if !ok || isNil(b) {
		return nil, fmt.Errorf("%w: encode no body (%T)", ErrMalformed, v)
	}
	c := cbor.Writer(encodedSize(v))
	b.fields(c)
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	out, elements := c.Written()
	if elements > MaxElements {
		return nil, fmt.Errorf("encode %T: %w", v, tooLarge("", "the lists of the body have %d elements, the limit is %d", elements, MaxElements))
	}
	if len(out) > MaxBody {
		return nil, fmt.Errorf("encode %T: %w", v, tooLarge("", "the body is %d bytes, the limit is %d", len(out), MaxBody))
	}
	return out, nil
}

// DecodeBody reads a body into the zero value that v points at, accepting only its
// canonical encoding. It allocates at most a few times len(b), and what [MaxElements]
// elements take. v keeps no reference to b.
// Errors: [ErrMalformed], [ErrTooLarge], [ErrUnsupported] for a member that this build
// does not know.
func DecodeBody(b []byte, v any) error {
	x, ok := v.(body)
	if !ok || isNil(x) {
		return fmt.Errorf("%w: decode into no body (%T)", ErrMalformed, v)
	}
	if len(b) > MaxBody {
		return tooLarge("", "the body is %d bytes, the limit is %d", len(b), MaxBody)
	}
	c := cbor.Reader(b)
	x.fields(c)
	if err := c.Done(); err != nil {
		return fmt.Errorf("%T: %w", v, err)
	}
	return nil
}

// CheckBody checks what [DecodeBody] leaves to whom trusts the writer: that each [Raw] in the body is one JSON
// value, and an object or array where the format says so. Errors: those of [EncodeBody].
func CheckBody(v any) error {
	_, err := EncodeBody(v)
	return err
}

func isNil(b body) bool {
	v := reflect.ValueOf(b)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// encodedSize is a number of bytes that most encodings of v fit into.
func encodedSize(v any) int {
	switch v := v.(type) {
	case *Message:
		return v.encodedSize()
	case *TurnBody:
		n := 64 + len(v.Model) + len(v.Meta)
		if c := v.Context; c != nil {
			n += 16 + len(c.Recipe) + len(c.Fingerprint)
		}
		for i := range v.Messages {
			n += v.Messages[i].encodedSize()
		}
		if v.Response != nil {
			n += v.Response.encodedSize()
		}
		return n
	}
	return 512
}

func (m *Message) encodedSize() int {
	n := 32 + len(m.Name) + len(m.FinishReason)
	for i := range m.Parts {
		p := &m.Parts[i]
		n += 64 + len(p.Content) + len(p.ID) + len(p.Name) + len(p.Arguments) + len(p.Response) + len(p.Data) + len(p.MimeType) + len(p.Ext)
		if p.Ref != nil {
			n += 64 + len(p.Ref.Preview) + 34*len(p.Ref.Pieces)
		}
	}
	return n
}
