package page

import (
	"nexus/ledger/api"
	"nexus/turns"
	"slices"
)

// Limits says how much a reply, a page and an item may hold.
type Limits struct {
	// MaxPayload is the largest message of the connection that replies go out
	// on, in bytes; 0: 8 MiB.
	MaxPayload int
}

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

// BodyBytes is how many bytes of JSON an event's body may have in a reply.
// What stands beside it in a turn or a page has the rest of the message: a
// compaction has a summary, a list of elisions and more.
func (l *Limits) BodyBytes(body any) int {
	if _, ok := body.(*turns.CompactionBody); ok {
		return l.Payload() / 2
	}
	return l.Payload() / 4 * 3
}

// SummaryBytes is how many bytes of JSON of a compaction's summary are shown.
// One of ours that is longer is whole in the replacement, or in its blob.
func (l *Limits) SummaryBytes() int { return l.Payload() / 8 }

// SettingsBytes is how many bytes of JSON a session's settings may have. They
// stand in session.get, and before the messages on the first page of a context.
func (l *Limits) SettingsBytes() int { return l.Payload() / 2 }

// TextBytes is how many bytes of JSON a single text may have that is shown
// beside a body.
func (l *Limits) TextBytes() int { return l.Payload() / 16 }

// TrimCalls leaves of an ack's lists of calls what has room in it.
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
