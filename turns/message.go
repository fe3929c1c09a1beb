package turns

import (
	"fmt"
	"math"
	"reflect"
	"slices"
)

// Role says who a message speaks for, in the words of the OpenTelemetry GenAI
// message schema.
type Role string

// The roles a message may have.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// PartType is the discriminator of a [Part].
type PartType string

// The types of parts. The first six are those of the OpenTelemetry GenAI
// message schema.
const (
	Text             PartType = "text"
	ToolCall         PartType = "tool_call"
	ToolCallResponse PartType = "tool_call_response"
	Reasoning        PartType = "reasoning"
	Blob             PartType = "blob"
	URI              PartType = "uri"
	File             PartType = "file"
)

// Raw is one JSON value, kept as the exact bytes in which it came. Nil means
// absent. It is never decoded to a Go value and back: numbers over 2^53 and
// the order of members survive.
type Raw []byte

// Message is a role and its content, part by part.
type Message struct {
	Role         Role   `cbor:"1,keyasint"`
	Parts        []Part `cbor:"2,keyasint,omitempty"`
	Name         string `cbor:"3,keyasint,omitempty"`
	FinishReason string `cbor:"4,keyasint,omitempty"` // responses only
}

// Part is one piece of a message. Which fields it may have follows from Type;
// [Message.Validate] checks it.
//
//	text, reasoning     Content
//	tool_call           ID, Name, Arguments
//	tool_call_response  ID, Response, IsError; Name where the source gives one
//	blob                Modality, MimeType, Data
//	uri                 Modality, MimeType, Content (the URI)
//	file                Modality, MimeType, Content (the provider's file id)
//
// Ref stands in for Content, Arguments, Response or Data where that was moved
// to a blob for its size. Ext is a JSON object, provider → value, kept verbatim and
// rendered only to that provider (signed reasoning lives there).
type Part struct {
	Type      PartType `cbor:"1,keyasint"`
	Content   string   `cbor:"2,keyasint,omitempty"`
	ID        string   `cbor:"3,keyasint,omitempty"`
	Name      string   `cbor:"4,keyasint,omitempty"`
	Arguments Raw      `cbor:"5,keyasint,omitempty"`
	Response  Raw      `cbor:"6,keyasint,omitempty"`
	IsError   bool     `cbor:"7,keyasint,omitempty"`
	Modality  string   `cbor:"8,keyasint,omitempty"`
	MimeType  string   `cbor:"9,keyasint,omitempty"`
	Data      []byte   `cbor:"10,keyasint,omitempty"`
	Ref       *BlobRef `cbor:"11,keyasint,omitempty"`
	Ext       Raw      `cbor:"12,keyasint,omitempty"`
}

// BlobRef points at content that is stored next to the event, not in it: one blob,
// or, if Pieces is set, several. Content in pieces is read piece by piece and never
// whole; a context shows [Part.Notice] in its place. Every piece but the last has
// [MaxPiece] bytes, so equal content has equal pieces.
type BlobRef struct {
	Digest   Hash   `cbor:"1,keyasint" json:"digest"` // HMAC-SHA-256 under the key of the tree; the key of the blob
	Size     uint64 `cbor:"2,keyasint" json:"size"`   // bytes of the content in the clear
	MimeType string `cbor:"3,keyasint,omitempty" json:"mime_type,omitempty"`
	Preview  string `cbor:"4,keyasint,omitempty" json:"preview,omitempty"`
	Pieces   []Hash `cbor:"5,keyasint,omitempty" json:"pieces,omitempty"` // digests, in order
}

// Address is what the blob is stored under, and what can be shown of the digest, which
// opens it.
func (r *BlobRef) Address() Hash { return Digest("address", r.Digest[:]) }

// CountPieces returns how many pieces content of size bytes has.
func CountPieces(size uint64) int { return int((size + MaxPiece - 1) / MaxPiece) }

// PieceSize returns the size of piece i of content of size bytes.
func PieceSize(size uint64, i int) uint64 { return min(MaxPiece, size-uint64(i)*MaxPiece) }

// InPieces reports whether the content of p is in pieces.
func (p *Part) InPieces() bool { return p.Ref != nil && len(p.Ref.Pieces) > 0 }

// Notice returns what a context shows in place of a part whose content is in pieces:
// a part of the same type, where the pairing of calls needs it, else a text. Its text
// never changes, since stored counts of tokens depend on it.
func (p *Part) Notice() Part {
	text := fmt.Sprintf("[%d bytes, too many to show; turn.get names the pieces, and blob.get reads them]", p.Ref.Size)
	if p.Ref.Preview != "" {
		text = fmt.Sprintf("[%d bytes, too many to show; turn.get names the pieces, and blob.get reads them. The beginning:]\n%s", p.Ref.Size, p.Ref.Preview)
	}
	switch p.Type {
	case ToolCall:
		return Part{Type: ToolCall, ID: p.ID, Name: p.Name, Arguments: Raw(`{"elided":` + string(RawText(text)) + `}`), Ext: p.Ext}
	case ToolCallResponse:
		return Part{Type: ToolCallResponse, ID: p.ID, Name: p.Name, IsError: p.IsError, Response: RawText(text)}
	case Reasoning: // without its signature, which was of the whole
		return Part{Type: Reasoning, Content: text}
	}
	return TextPart(text)
}

// Shown returns ms with a notice in place of each part whose content is in pieces.
// Messages without such a part share their parts with ms.
func Shown(ms []Message) []Message {
	var out []Message
	for i := range ms {
		if !slices.ContainsFunc(ms[i].Parts, func(p Part) bool { return p.InPieces() }) {
			continue
		}
		if out == nil {
			out = slices.Clone(ms)
		}
		out[i].Parts = slices.Clone(ms[i].Parts)
		for j := range out[i].Parts {
			if p := &out[i].Parts[j]; p.InPieces() {
				*p = p.Notice()
			}
		}
	}
	if out == nil {
		return ms
	}
	return out
}

// Usage is what a provider reported for one call, in tokens. InputTokens
// always includes cache reads and writes, whatever the provider's own custom.
type Usage struct {
	InputTokens   uint64 `cbor:"1,keyasint,omitempty" json:"input_tokens"`
	OutputTokens  uint64 `cbor:"2,keyasint,omitempty" json:"output_tokens"`
	CacheRead     uint64 `cbor:"3,keyasint,omitempty" json:"cache_read_input_tokens,omitempty"`
	CacheCreation uint64 `cbor:"4,keyasint,omitempty" json:"cache_creation_input_tokens,omitempty"`
}

// Plus returns u and v added up. A sum that does not fit is the largest number.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		InputTokens: addTokens(u.InputTokens, v.InputTokens), OutputTokens: addTokens(u.OutputTokens, v.OutputTokens),
		CacheRead: addTokens(u.CacheRead, v.CacheRead), CacheCreation: addTokens(u.CacheCreation, v.CacheCreation),
	}
}

// AddUsage returns a and b added up; nil stands for a usage that nobody reported.
func AddUsage(a, b *Usage) *Usage {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	sum := a.Plus(*b)
	return &sum
}

// addTokens returns a + b, and the largest number where that does not fit.
func addTokens(a, b uint64) uint64 { return a + min(b, math.MaxUint64-a) }

// SameAs reports whether m and o have the same content. Messages that share their parts
// are compared at once.
func (m *Message) SameAs(o *Message) bool {
	if m.Role != o.Role || m.Name != o.Name || m.FinishReason != o.FinishReason || len(m.Parts) != len(o.Parts) {
		return false
	}
	return len(m.Parts) == 0 || &m.Parts[0] == &o.Parts[0] || reflect.DeepEqual(m.Parts, o.Parts)
}

// CommonMessages returns how many messages a and b begin with in common. Lists that begin at one place in memory, and that
// nobody changes, are not compared.
func CommonMessages(a, b []Message) (n int) {
	shorter := min(len(a), len(b))
	if shorter > 0 && &a[0] == &b[0] {
		return shorter
	}
	for n < shorter && a[n].SameAs(&b[n]) {
		n++
	}
	return n
}

// Calls appends to dst the ids of the tool calls in m, in order.
func (m *Message) Calls(dst []string) []string {
	for i := range m.Parts {
		if m.Parts[i].Type == ToolCall {
			dst = append(dst, m.Parts[i].ID)
		}
	}
	return dst
}

// CountUserTexts is how many messages of ms are the user's and hold text.
func CountUserTexts(ms []Message) (n uint64) {
	for i := range ms {
		if ms[i].Role == User && slices.ContainsFunc(ms[i].Parts, func(p Part) bool {
			return p.Type == Text && (p.Content != "" || p.Ref != nil)
		}) {
			n++
		}
	}
	return n
}

// ContentBytes returns the content that p holds itself, in the field that SetContent fills.
func (p *Part) ContentBytes() []byte {
	switch p.Type {
	case ToolCall:
		return p.Arguments
	case ToolCallResponse:
		return p.Response
	case Blob:
		return p.Data
	}
	return []byte(p.Content)
}

// SetContent puts b, the content of the blob that Ref names, back into the field that the
// part's type has for it, and clears Ref. Arguments, Response and Data share b's
// memory afterwards.
func (p *Part) SetContent(b []byte) {
	switch p.Type {
	case ToolCall:
		p.Arguments = b
	case ToolCallResponse:
		p.Response = b
	case Blob:
		p.Data = b
	default:
		p.Content = string(b)
	}
	p.Ref = nil
}

// TextPart is a text part; a convenience of callers that build messages.
func TextPart(s string) Part { return Part{Type: Text, Content: s} }

// TextMessage is a message of one text part.
func TextMessage(r Role, s string) Message {
	return Message{Role: r, Parts: []Part{TextPart(s)}}
}
