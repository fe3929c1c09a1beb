package turns

import (
	"fmt"
	"strconv"

	"nexus/turns/internal/cbor"
)

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
	MaxElements = cbor.MaxElements
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
	c := cbor.Writer(512 + len(e.Body))
	c.Array(2)
	e.fields(c)
	c.Binary(&e.Body)
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	payload, _ := c.Written()
	if len(payload) > MaxPayload {
		return nil, tooLarge("", "the event is %d bytes, the limit is %d", len(payload), MaxPayload)
	}
	return payload, nil
}

// HeaderBytes is the encoding of e without its body: what a seal binds the body to, and
// what stands in the payload. So a sealed event takes no more changes.
func (e *Event) HeaderBytes() ([]byte, error) {
	c := cbor.Writer(512)
	e.fields(c)
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	header, _ := c.Written()
	return header, nil
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
	e, c := new(Event), cbor.Reader(payload)
	c.Array(2)
	e.fields(c)
	c.Binary(&e.Body)
	if err := c.Done(); err != nil {
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
	c := cbor.Reader(payload)
	c.Head(4)
	c.Begin()
	if err := c.Err(); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	var version, kind uint64
	if c.Must(1) {
		c.Number(&version)
	}
	if c.Err() == nil && version != Version {
		if version == 0 {
			return fmt.Errorf("%w: event of version 0", ErrMalformed)
		}
		return &VersionError{"event", strconv.FormatUint(version, 10), strconv.FormatUint(Version, 10)}
	}
	if c.Must(2) {
		c.Number(&kind)
	}
	if err := c.Err(); err != nil {
		return fmt.Errorf("event: %w", err)
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
	n := cbor.Skip(payload[1:])
	if n == 0 || payload[1]>>5 != 5 {
		return nil, nil, false
	}
	header, rest := payload[1:1+n], payload[1+n:]
	size, head := cbor.ItemHead(rest)
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
	c := cbor.Writer(16 + len(t.Counter))
	t.values(c)
	b, _ := c.Written()
	return b, c.Err()
}
