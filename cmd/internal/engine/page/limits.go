package page

import (
	"cmp"
	"slices"

	"nexus/ledger/api"
	"nexus/turns"
)

// Limits computes how much a reply, a page and an item may hold. No reply is larger
// than a message of the connection. A list or a context is measured before it is
// sent. An item that is larger than a page goes to a blob when it is stored, or
// goes out in pieces.
type Limits struct {
	// MaxPayload is the largest message of the connection that carries the
	// replies, in bytes. 0 means 8 MiB.
	MaxPayload int
	// CursorRecords is how many records may be stored behind the position of a cursor of the
	// order of changes, each of which a page reads. 0 means 100,000.
	CursorRecords uint64
}

// IsTooOld reports whether a page that begins at a cursor of position at would read more
// records than it may, where the newest one is last.
func (l *Limits) IsTooOld(at, last uint64) bool {
	return last > at && last-at > cmp.Or(l.CursorRecords, 100_000)
}

// Payload returns the size of the largest reply, in bytes.
func (l *Limits) Payload() int {
	if l.MaxPayload <= 0 {
		return turns.MaxPayload
	}
	return l.MaxPayload
}

// PageBytes returns about how many bytes of JSON a page of a list holds. Every page
// holds at least one item, whose content takes at most [Limits.InlineBytes].
func (l *Limits) PageBytes() int { return min(256<<10, l.Payload()/4) }

// ItemBytes returns how many bytes of JSON one item of a list may take. A list shows
// a larger item without its content. Such items were stored before items were
// measured, or by a server that allows larger messages.
func (l *Limits) ItemBytes() int { return l.Payload() - 1<<10 }

// OutlineBytes is about how many bytes of JSON an item takes without its content.
const OutlineBytes = 1 << 10

// ContextBytes returns how many bytes of JSON a page of a context holds.
func (l *Limits) ContextBytes() int { return min(700<<10, l.Payload()/2) }

// InlineBytes returns how much content an event holds itself. More content goes to
// blobs. The limit leaves room for base64 and for the escapes of JSON, which make a
// turn larger when it is read.
func (l *Limits) InlineBytes() int { return min(turns.InlineBody, l.Payload()/4) }

// PieceBytes returns how many bytes of a blob one message carries, before base64.
func (l *Limits) PieceBytes() int { return min(512<<10, l.Payload()/3) }

// BodyBytes returns how many bytes of JSON the body of an event may take in a reply.
// The rest of the message is for the other members: a compaction also has a summary
// and a list of elisions.
func (l *Limits) BodyBytes(body any) int {
	if _, ok := body.(*turns.CompactionBody); ok {
		return l.Payload() / 2
	}
	return l.Payload() / 4 * 3
}

// SummaryBytes returns how many bytes of JSON of a compaction's summary a reply
// shows. A longer summary is whole in the replacement, or in its blob.
func (l *Limits) SummaryBytes() int { return l.Payload() / 8 }

// SettingsBytes returns how many bytes of JSON the settings of a session may take.
// session.get shows them, and so does the first page of a context.
func (l *Limits) SettingsBytes() int { return l.Payload() / 2 }

// TextBytes returns how many bytes of JSON a single text next to a body may take.
func (l *Limits) TextBytes() int { return l.Payload() / 16 }

// TrimCalls shortens the lists of calls in an ack to fit half a message, and marks
// the ack as cut.
func (l *Limits) TrimCalls(ack *api.Appended) {
	room := l.Payload() / 2
	for _, ids := range []*[]string{&ack.Open, &ack.Abandoned, &ack.Late} {
		for i, id := range *ids {
			if room -= 3 + EscapedSize(id); room < 0 {
				*ids, ack.CallsCut = slices.Clip((*ids)[:i]), true
				break
			}
		}
	}
}
