package turns

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Hash is a SHA-256. Its text form is "sha256:" and 64 lower-case hex digits.
// The zero Hash means "none".
type Hash [32]byte

// eventDomain keeps an event's hash apart from every other use of SHA-256
// (RFC 6962 section 2.1 gives the reason).
const (
	eventDomain    = "nexus.event.v1\x00"
	notEventDomain = "nexus.not-event.v1\x00"
)

// HashEvent is the hash of an event by its payload: SHA-256 of the domain
// "nexus.event.v1\0", the header's bytes, and the SHA-256 of the body. So who has a
// header and the hash of a body that he was not given can check both. The next event of
// the chain carries it as Prev.
//
// Bytes that are not framed as a payload have a hash too, which no event has.
func HashEvent(payload []byte) Hash {
	header, body, ok := headerAndBody(payload)
	if !ok {
		return sum(notEventDomain, payload)
	}
	content := sha256.Sum256(body)
	h := sha256.New()
	h.Write([]byte(eventDomain))
	h.Write(header)
	h.Write(content[:])
	return Hash(h.Sum(nil))
}

// HashHeader is the hash of an event by the bytes of its header, and the SHA-256 of its body.
func HashHeader(header []byte, body Hash) Hash {
	return sum(eventDomain, append(header[:len(header):len(header)], body[:]...))
}

// SplitPayload returns the bytes of a payload's header, and the SHA-256 of its body, which
// [HashHeader] takes. Errors: [ErrCorrupt] for bytes that are not framed as a payload.
func SplitPayload(payload []byte) (header []byte, body Hash, err error) {
	header, b, ok := headerAndBody(payload)
	if !ok {
		return nil, Hash{}, fmt.Errorf("%w: the record is no event", ErrCorrupt)
	}
	return header, sha256.Sum256(b), nil
}

// DecodeHeader reads an event by the bytes of its header alone: it has no body. Errors: those of [Decode].
func DecodeHeader(header []byte) (*Event, error) {
	stub := append(append([]byte{0x82}, header...), 0x41, 0) // a body, as most events have
	e, err := Decode(stub)
	if err != nil {
		if e, err = Decode(append(stub[:1+len(header)], 0x40)); err != nil {
			return nil, err
		}
	}
	e.Body = nil
	return e, nil
}

// Digest is the SHA-256 of "nexus.WHAT.v1\0" and bytes that are no event.
func Digest(what string, b []byte) Hash { return sum("nexus."+what+".v1\x00", b) }

func sum(domain string, b []byte) Hash {
	h := sha256.New()
	h.Write([]byte(domain))
	h.Write(b)
	return Hash(h.Sum(nil))
}

// ParseHash reads the text form; anything else is [ErrMalformed].
func ParseHash(s string) (Hash, error) {
	var h Hash
	digits, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(digits) != 2*len(h) || strings.ToLower(digits) != digits {
		return Hash{}, fmt.Errorf("%w: %q is not a hash (sha256: and 64 lower-case hex digits)", ErrMalformed, clip(s, 80))
	}
	if _, err := hex.Decode(h[:], []byte(digits)); err != nil {
		return Hash{}, fmt.Errorf("%w: %q is not a hash: %v", ErrMalformed, clip(s, 80), err)
	}
	return h, nil
}

// String is the text form.
func (h Hash) String() string {
	var form [len("sha256:") + 2*len(h)]byte
	b, _ := h.AppendText(form[:0])
	return string(b)
}

// AppendText appends the text form to b.
func (h Hash) AppendText(b []byte) ([]byte, error) {
	return hex.AppendEncode(append(b, "sha256:"...), h[:]), nil
}

// IsZero reports whether h is "none".
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText is String.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is ParseHash.
func (h *Hash) UnmarshalText(b []byte) (err error) {
	*h, err = ParseHash(string(b))
	return err
}
