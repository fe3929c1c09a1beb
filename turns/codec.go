package turns

import (
	"bytes"
	"fmt"

	"github.com/fxamacker/cbor/v2"
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
	// MaxElements is how many elements one list of an event, and all lists of a
	// body together, may have. It bounds what decoding allocates: an empty part
	// takes one byte in CBOR and a few hundred in memory.
	MaxElements = 1 << 18
	// MaxCount is the largest count in a header (positions, tokens, sizes). Such
	// numbers are exact in JSON readers that hold numbers as doubles, and a
	// thousand of them don't overflow a sum.
	MaxCount = 1<<53 - 1
)

// encMode is RFC 8949 section 4.2.1: shortest forms, sorted keys, no
// indefinite lengths.
var encMode = func() cbor.EncMode {
	o := cbor.CoreDetEncOptions()
	o.Time = cbor.TimeUnix
	o.TagsMd = cbor.TagsForbidden
	o.NilContainers = cbor.NilContainerAsEmpty
	m, err := o.EncMode()
	if err != nil {
		panic(err)
	}
	return m
}()

var decMode = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8RejectInvalid,
		MaxNestedLevels:   16,
		MaxArrayElements:  MaxElements,
		MaxMapPairs:       1 << 10,
		IntDec:            cbor.IntDecConvertNone,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}()

// Encode is the payload of e: deterministic CBOR, the bytes that are stored
// and hashed. It returns the errors of [Event.Validate], and never bytes that
// [Decode] refuses: a stored event can't be taken back, so it is read once
// before anyone stores it.
func (e *Event) Encode() ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	b, err := e.encode()
	if err != nil {
		return nil, err
	}
	if _, ok := canonicalView(b); ok {
		return b, nil
	}
	if err := decMode.Unmarshal(b, new(Event)); err != nil {
		return nil, fmt.Errorf("%w: event %s would not decode: %v", ErrMalformed, e.ID, err)
	}
	return b, nil
}

func (e *Event) encode() ([]byte, error) {
	b, err := appendEvent(make([]byte, 0, 512+len(e.Body)), e)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	if len(b) > MaxPayload {
		return nil, tooLarge("", "the event is %d bytes, the limit is %d", len(b), MaxPayload)
	}
	return b, nil
}

// HeaderBytes is the encoding of e without its body: what a seal binds the
// body to. So a sealed event takes no more changes.
func (e *Event) HeaderBytes() ([]byte, error) {
	h := *e
	h.Body = nil
	return h.encode()
}

// Decode reads a payload. It accepts exactly the bytes that [Event.Encode]
// gives for the event it returns: no other encoding of an event decodes.
// The event keeps no reference to payload.
//
// Errors: [ErrTooLarge]; [ErrUnsupported] for a version or kind this build
// does not know; [ErrMalformed] for everything else.
func Decode(payload []byte) (*Event, error) {
	if len(payload) > MaxPayload {
		return nil, tooLarge("", "the event is %d bytes, the limit is %d", len(payload), MaxPayload)
	}
	if e, ok := readCanonical(payload); ok {
		if err := e.Validate(); err != nil {
			return nil, err
		}
		return e, nil
	}
	return decodeAny(payload)
}

// decodeAny is [Decode] with the library: it reads, and encodes again to compare.
func decodeAny(payload []byte) (*Event, error) {
	// The version decides how the rest reads, so it is looked at by itself: a
	// later version must answer "unsupported", not "malformed".
	var v struct {
		Version uint64 `cbor:"1,keyasint"`
		Kind    uint64 `cbor:"2,keyasint"`
	}
	if err := looseMode.Unmarshal(payload, &v); err != nil {
		return nil, fmt.Errorf("%w: event: %v", ErrMalformed, err)
	}
	if v.Version != Version {
		if v.Version == 0 {
			return nil, fmt.Errorf("%w: event without a version", ErrMalformed)
		}
		return nil, fmt.Errorf("%w: event version %d, this build knows %d", ErrUnsupported, v.Version, Version)
	}
	if v.Kind > 255 || !Kind(v.Kind).defined() {
		return nil, fmt.Errorf("%w: event kind %d", ErrUnsupported, v.Kind)
	}
	e := new(Event)
	if err := decMode.Unmarshal(payload, e); err != nil {
		return nil, fmt.Errorf("%w: event: %v", ErrMalformed, err)
	}
	if err := e.Validate(); err != nil {
		return nil, err
	}
	again, err := e.encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, payload) {
		return nil, fmt.Errorf("%w: event %s is not in its canonical encoding", ErrMalformed, e.ID)
	}
	return e, nil
}

// looseMode reads only version and kind. It accepts everything else that a later
// version may hold: tags, floats, longer lists. Every version must keep the outer
// map and the unsigned integers at its keys 1 and 2.
var looseMode = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		IndefLength:      cbor.IndefLengthAllowed,
		TagsMd:           cbor.TagsAllowed,
		MaxNestedLevels:  64,
		MaxArrayElements: MaxPayload,
		MaxMapPairs:      MaxPayload,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}()

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
	type array Tokens
	return encMode.Marshal(array(t))
}
