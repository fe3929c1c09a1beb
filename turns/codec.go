package turns

import "fmt"

// The limits of the format. Bytes unless said otherwise.
const (
	// MaxPayload is the largest event payload that decodes.
	MaxPayload = 8 << 20
	// MaxBody is the largest body in the clear, after decompression.
	MaxBody = 64 << 20
	// MaxWhole is the largest content of a part that is one blob. It bounds the
	// parts of one request together that are; such content is loaded whole.
	MaxWhole = 32 << 20
	// MaxPart is the largest content of a part. Content over MaxWhole is in pieces,
	// and no request loads it whole.
	MaxPart = 100 << 20
	// MaxPiece is the size of every piece of such content but the last. A piece is a
	// blob.
	MaxPiece = 4 << 20
	// MaxInPieces bounds the parts of one turn together that are in pieces.
	MaxInPieces = 256 << 20
	// InlineBody is the size of a payload above which a writer moves parts to
	// blobs, largest first.
	InlineBody = 512 << 10
	// MaxPolicy is the largest content of a compaction policy.
	MaxPolicy = 256 << 10
	// MaxNesting is how deep JSON in a request, and so in a body, may nest.
	MaxNesting = 100
	// MaxElements is how many elements all lists of a header together, and of a body, may
	// have. It bounds what decoding allocates: an empty part
	// takes one byte in CBOR and a few hundred in memory.
	MaxElements = 1 << 18
	// MaxCount is the largest count in a header (positions, tokens, sizes). Such
	// numbers are exact in JSON readers that hold numbers as doubles, and a
	// thousand of them don't overflow a sum.
	MaxCount = 1<<53 - 1
)

// Encode is the payload of e: an array of its header and its body, in deterministic CBOR.
// These bytes are stored, and [Decode] reads them. It returns the errors of
// [Event.Validate], and never bytes that Decode refuses: a stored event can't be taken
// back.
func (e *Event) Encode() ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	c := writer(512 + len(e.Body))
	c.array(2)
	e.fields(c)
	c.binary(&e.Body)
	if c.err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, c.err)
	}
	if len(c.b) > MaxPayload {
		return nil, tooLarge("", "the event is %d bytes, the limit is %d", len(c.b), MaxPayload)
	}
	return c.b, nil
}

// HeaderBytes is the encoding of e without its body: what a seal binds the body to, and
// what stands in the payload. So a sealed event takes no more changes.
func (e *Event) HeaderBytes() ([]byte, error) {
	c := writer(512)
	e.fields(c)
	if c.err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, c.err)
	}
	return c.b, nil
}

// Decode reads a payload. It accepts exactly the bytes that [Event.Encode] gives for the
// event it returns: no other encoding of an event decodes. The event keeps no reference
// to payload.
//
// Errors: [ErrTooLarge]; [ErrUnsupported] for a version, a kind or a member that this
// build does not know; [ErrMalformed] for everything else.
func Decode(payload []byte) (*Event, error) {
	if len(payload) > MaxPayload {
		return nil, tooLarge("", "the event is %d bytes, the limit is %d", len(payload), MaxPayload)
	}
	if err := knownVersion(payload); err != nil {
		return nil, err
	}
	e, c := new(Event), reader(payload)
	c.array(2)
	e.fields(c)
	c.binary(&e.Body)
	if err := c.done(); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	if len(e.Body) == 0 {
		e.Body = nil
	}
	if err := e.Validate(); err != nil {
		return nil, err
	}
	return e, nil
}

// knownVersion looks at the version and the kind alone, because they decide how the rest
// reads: what a later build wrote is unsupported, not malformed. So every version begins
// with an array whose first value is a map whose first members are these two.
func knownVersion(payload []byte) error {
	c := reader(payload)
	c.head(4)
	if c.pairs = c.head(5); c.err != nil {
		return fmt.Errorf("event: %w", c.err)
	}
	var version, kind uint64
	if c.must(1) {
		c.number(&version)
	}
	if c.err == nil && version != Version {
		if version == 0 {
			return fmt.Errorf("%w: event of version 0", ErrMalformed)
		}
		return fmt.Errorf("%w: event version %d, this build knows %d", ErrUnsupported, version, Version)
	}
	if c.must(2) {
		c.number(&kind)
	}
	if c.err != nil {
		return fmt.Errorf("event: %w", c.err)
	}
	if kind > 255 || !Kind(kind).defined() {
		return fmt.Errorf("%w: event kind %d", ErrUnsupported, kind)
	}
	return nil
}

// headerAndBody are the encoded header and the body of a payload. ok is false for bytes that are
// not framed as a payload is; what is in the header is not looked at.
func headerAndBody(payload []byte) (header, body []byte, ok bool) {
	if len(payload) == 0 || payload[0] != 0x82 {
		return nil, nil, false
	}
	n := skip(payload[1:], maxDepth)
	if n == 0 || payload[1]>>5 != 5 {
		return nil, nil, false
	}
	header, rest := payload[1:1+n], payload[1+n:]
	size, head := itemHead(rest)
	if head == 0 || rest[0]>>5 != 2 || uint64(len(rest)-head) != size {
		return nil, nil, false
	}
	return header, rest[head:], true
}

// MarshalCBOR writes the array of two. It is here because the library omits no
// zero struct that is written as an array, whatever its field's tag says,
// unless the struct writes itself.
func (r Ref) MarshalCBOR() ([]byte, error) {
	b := make([]byte, 0, 1+2*(1+len(ID{})))
	b = append(append(b, 0x82, 0x50), r.Session[:]...)
	return append(append(b, 0x50), r.Turn[:]...), nil
}

// MarshalCBOR writes the array of three; see [Ref.MarshalCBOR].
func (t Tokens) MarshalCBOR() ([]byte, error) {
	c := writer(16 + len(t.Counter))
	t.values(c)
	return c.b, c.err
}
