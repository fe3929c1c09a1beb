package engine

import (
	"nexus/turns"
)

// No reply is larger than a message may be. What a page holds is measured
// before it is sent; an item that is larger than a page by itself is moved to a
// blob when it is stored, or comes in pieces.

// payload is the largest message that a reply may be.
func (e *Engine) payload() int {
	if e.MaxPayload <= 0 {
		return turns.MaxPayload
	}
	return e.MaxPayload
}

// pageBytes is about how many bytes of JSON a page of a list holds. A page
// always holds one item, of at most [Engine.inlineBytes] of content.
func (e *Engine) pageBytes() int { return min(256<<10, e.payload()/4) }

// itemBytes is the most bytes of JSON that one item of a list may have. Larger
// ones, stored before this was measured or by a server of larger messages, are
// listed without their content.
func (e *Engine) itemBytes() int { return e.payload() - 1<<10 }

// outlineBytes is about how many bytes of JSON an item has without its content.
const outlineBytes = 1 << 10

// contextBytes is how many bytes of JSON a page of a context holds.
func (e *Engine) contextBytes() int { return min(700<<10, e.payload()/2) }

// inlineBytes is how much content an event holds itself; what is over it is
// moved to blobs. Base64 and JSON's escapes make a turn larger when it is read.
func (e *Engine) inlineBytes() int { return min(turns.InlineBody, e.payload()/4) }

// pieceBytes is how much of a blob one message carries, before base64.
func (e *Engine) pieceBytes() int { return min(512<<10, e.payload()/3) }
