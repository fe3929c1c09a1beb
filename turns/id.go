package turns

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
)

// ID is a ULID: 48 bits of milliseconds since 1970, then 80 bits that tell
// apart what one millisecond holds. It names events, and so turns, and
// sessions. The zero ID means "none" wherever an ID is optional.
//
// The time in an ID is a claim of whoever made it. Nothing here orders by it;
// order is the chain's.
type ID [16]byte

// ParseID reads the canonical form of an ID: 26 upper-case characters of
// Crockford's base 32, no more than 128 bits. Lower case, look-alike letters
// and overflow are refused with [ErrMalformed], so that an ID has one spelling.
func ParseID(s string) (ID, error) {
	u, err := ulid.ParseStrict(s)
	var form [ulid.EncodedSize]byte // on the stack: an append parses the id of its session a dozen times
	if err == nil {
		err = u.MarshalTextTo(form[:])
	}
	if err != nil || string(form[:]) != s {
		return ID{}, fmt.Errorf("%w: %q is not a ULID (26 characters of 0-9 A-Z without I L O U)", ErrMalformed, clip(s, 40))
	}
	return ID(u), nil
}

// MustParseID is ParseID for constants in tests; it panics on a bad one.
func MustParseID(s string) ID {
	id, err := ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

// NewID makes an ID of t and 80 bits read from entropy.
// It returns the reader's error, if any, and [ErrMalformed] for a time outside
// 1970 to 10889, which the format can't hold.
func NewID(t time.Time, entropy io.Reader) (ID, error) {
	u, err := ulid.New(uint64(t.UnixMilli()), entropy)
	if err != nil {
		return ID{}, fmt.Errorf("make an id: %w", err)
	}
	return ID(u), nil
}

// DeriveID makes the ID that t and parts always make: imports use it, so that
// the same record of the same source gets the same ID on every run. Parts are
// length-prefixed before hashing: ("ab","c") and ("a","bc") differ. A time
// before 1970 counts as 1970.
func DeriveID(t time.Time, parts ...string) ID {
	h := sha256.New()
	h.Write([]byte("nexus.id.v1\x00"))
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		io.WriteString(h, p)
	}
	var id ID
	ms := max(t.UnixMilli(), 0)
	for i := 5; i >= 0; i-- {
		id[i] = byte(ms)
		ms >>= 8
	}
	copy(id[6:], h.Sum(nil))
	return id
}

// String is the canonical 26-character form.
func (id ID) String() string { return ulid.ULID(id).String() }

// IsZero reports whether id is the zero ID, "none".
func (id ID) IsZero() bool { return id == ID{} }

// Time is the claimed time of id, to the millisecond, in UTC.
func (id ID) Time() time.Time { return time.UnixMilli(int64(ulid.ULID(id).Time())).UTC() }

// Compare orders IDs by their bytes, which is also the order of their strings.
func (id ID) Compare(o ID) int { return bytes.Compare(id[:], o[:]) }

// AppendText appends String to b.
func (id ID) AppendText(b []byte) ([]byte, error) {
	b = append(b, make([]byte, ulid.EncodedSize)...)
	return b, ulid.ULID(id).MarshalTextTo(b[len(b)-ulid.EncodedSize:])
}

// MarshalText is String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is ParseID, but refuses the zero ID: who writes an id means
// one, and "none" is written by leaving it out.
func (id *ID) UnmarshalText(b []byte) (err error) {
	if *id, err = ParseID(string(b)); err == nil && id.IsZero() {
		err = fmt.Errorf("%w: the zero id names nothing; leave the member out", ErrMalformed)
	}
	return err
}

// Ref names a turn: the session whose chain holds it, and its ID there. A
// fork's ancestors live on other sessions' chains, so an ID alone is not
// enough. The zero Ref means "none".
type Ref struct {
	_       struct{} `cbor:",toarray"`
	Session ID
	Turn    ID
}

// IsZero reports whether r names nothing.
func (r Ref) IsZero() bool { return r.Session.IsZero() && r.Turn.IsZero() }

// Compare orders by session, then turn.
func (r Ref) Compare(o Ref) int {
	if c := r.Session.Compare(o.Session); c != 0 {
		return c
	}
	return r.Turn.Compare(o.Turn)
}

// String is "SESSION/TURN", for logs and errors.
func (r Ref) String() string {
	if r.IsZero() {
		return "none"
	}
	return r.Session.String() + "/" + r.Turn.String()
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
