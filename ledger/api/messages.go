package api

import (
	"crypto/rand"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// Time is RFC 3339 in UTC, to the nanosecond, on the wire.
type Time time.Time

// MarshalText writes RFC 3339 with as many digits as needed.
func (t Time) MarshalText() ([]byte, error) {
	return []byte(time.Time(t).UTC().Format(time.RFC3339Nano)), nil
}

// UnmarshalText reads RFC 3339, with any offset.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return &turns.FieldError{Reason: "not a time (RFC 3339)", Kind: turns.ErrMalformed}
	}
	*t = Time(v)
	return nil
}

// UnixNano is t in ns since 1970, as events hold a claimed time. ok is false
// for what they can't hold: times before 1678 or after 2261, and the first
// instant of 1970, whose zero stands for no time.
func (t Time) UnixNano() (ns int64, ok bool) {
	ns = time.Time(t).UnixNano()
	return ns, ns != 0 && time.Unix(0, ns).Equal(time.Time(t))
}

// UnixTime is ns since 1970 as a Time.
func UnixTime(ns int64) Time { return Time(time.Unix(0, ns).UTC()) }

// System is the system part: a string, or named sections.
type System []turns.Section

// UnmarshalJSONFrom takes a string for one section without a name.
func (s *System) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '"' {
		var text string
		if err := json.UnmarshalDecode(d, &text); err != nil {
			return err
		}
		*s = System{{Content: text}}
		return nil
	}
	return json.UnmarshalDecode(d, (*[]turns.Section)(s))
}

// Page asks for a stretch of a list.
type Page struct {
	After string `json:"after,omitempty,omitzero"`
	Limit int    `json:"limit,omitempty,omitzero"`
}

// LimitOf is how many items the page has: def if the request names no limit.
// More than most, or less than none, is malformed.
func (p Page) LimitOf(def, most int) (int, error) {
	switch {
	case p.Limit < 0 || p.Limit > most:
		return 0, FieldErrorf("/limit", "%d is not from 1 to %d", p.Limit, most)
	case p.Limit == 0:
		return def, nil
	}
	return p.Limit, nil
}

// Read is what every read may say about freshness.
type Read struct {
	MinPosition Position `json:"min_position,omitempty,omitzero"`
	StaleOK     bool     `json:"stale_ok,omitempty,omitzero"`
}

// Notification is what notify subjects carry: a hint, with a position to read from.
type Notification struct {
	Kind     string    `json:"what"`
	Session  turns.ID  `json:"session,omitzero"`
	Turn     turns.ID  `json:"turn,omitzero"`
	Channel  string    `json:"channel,omitempty,omitzero"` // event.appended: the channel's name
	Event    turns.ID  `json:"event,omitzero"`             // event.appended
	Position string    `json:"position"`
	Detail   turns.Raw `json:"detail,omitzero"`

	ChannelID string `json:"channel_id,omitempty,omitzero"` // event.appended: in the subject in place of a session
}

// Operator is the agent that sees all agents of a tenant and creates nothing.
const Operator = "_"

// NewID makes an id for a call.
func NewID() turns.ID {
	id, err := turns.NewID(time.Now(), rand.Reader)
	if err != nil {
		panic(err) // the system's randomness failed: nothing can be promised any more
	}
	return id
}
