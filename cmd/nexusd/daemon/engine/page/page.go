package page

import (
	"nexus/turns"
)

// No reply is larger than a message may be. What a page holds is measured
// before it is sent; an item that is larger than a page by itself is moved to a
// blob when it is stored, or comes in pieces.

// Payload is the largest message that a reply may be.
func (l *Limits) Payload() int {
	if l.MaxPayload <= 0 {
		return turns.MaxPayload
	}
	return l.MaxPayload
}

// PageBytes is about how many bytes of JSON a page of a list holds. A page
// always holds one item, of at most [Limits.InlineBytes] of content.
func (l *Limits) PageBytes() int { return min(256<<10, l.Payload()/4) }

// ItemBytes is the most bytes of JSON that one item of a list may have. Larger
// ones, stored before this was measured or by a server of larger messages, are
// listed without their content.
func (l *Limits) ItemBytes() int { return l.Payload() - 1<<10 }

// outlineBytes is about how many bytes of JSON an item has without its content.
const OutlineBytes = 1 << 10

// ContextBytes is how many bytes of JSON a page of a context holds.
func (l *Limits) ContextBytes() int { return min(700<<10, l.Payload()/2) }

// InlineBytes is how much content an event holds itself; what is over it is
// moved to blobs. Base64 and JSON's escapes make a turn larger when it is read.
func (l *Limits) InlineBytes() int { return min(turns.InlineBody, l.Payload()/4) }

// PieceBytes is how much of a blob one message carries, before base64.
func (l *Limits) PieceBytes() int { return min(512<<10, l.Payload()/3) }

func EncodedSize(v any) (int, error) {
	b, err := turns.EncodeJSON(v)
	return len(b), err
}

func OptionalID(field, s string) (turns.ID, error) {
	if s == "" {
		return turns.ID{}, nil
	}
	id, err := turns.ParseID(s)
	if err != nil || id.IsZero() {
		return id, FieldErr(field, "not an id")
	}
	return id, nil
}
