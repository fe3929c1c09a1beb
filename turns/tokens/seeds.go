package tokens

import (
	"unicode/utf16"
	"unicode/utf8"

	"nexus/turns"
)

// The counters of the policies that come from other systems (GSV, Spec 008,
// Wolffish). Each multiplies a number of characters by a constant. All three
// work in whole units and round once, the message up and its parts down, so
// that no order of adding changes a count.

// rate is tokens per unit, as the fraction num/den.
//
// Invariant: 0 < num <= den, so that nothing overflows.
type rate struct{ num, den uint64 }

func (r rate) down(units uint64) uint64 {
	return units/r.den*r.num + units%r.den*r.num/r.den
}

func (r rate) up(units uint64) uint64 {
	return units/r.den*r.num + (units%r.den*r.num+r.den-1)/r.den
}

var (
	gsvRate      = rate{3, 10} // 1/4 × 1.2
	spec008Rate  = rate{1, 4}
	wolffishRate = rate{2, 3} // 1/1.5
)

// UTF16Len returns the length of s in UTF-16 units, which is what JavaScript
// calls a string's length.
func UTF16Len(s string) uint64 {
	n := utf8.RuneCountInString(s)
	for i := range len(s) {
		if s[i] >= 0xF0 { // leads a character that takes two units
			n++
		}
	}
	return uint64(n)
}

// HeadUTF16 returns the longest prefix of s with at most n UTF-16 units, in whole characters.
func HeadUTF16(s string, n uint64) string {
	for i, r := range s {
		w := uint64(max(1, utf16.RuneLen(r)))
		if w > n {
			return s[:i]
		}
		n -= w
	}
	return s
}

func codePoints(s string) uint64 { return uint64(utf8.RuneCountInString(s)) }

// GSV counts 0.3 tokens for each UTF-16 unit of the message's protocol JSON
// (see [turns.EncodeJSON]), rounded up for each message: len/4 × 1.2. What the
// JSON holds beside the parts is framing. Inline data of a blob counts as its
// base64, like everything else in the JSON.
type GSV struct{}

// Name is "gsv-1".
func (GSV) Name() string { return "gsv-1" }

// Text counts the UTF-16 units of s, without the quotes and escapes of JSON.
func (GSV) Text(s string) uint64 { return gsvRate.up(UTF16Len(s)) }

// Message counts the JSON of m.
func (GSV) Message(m *turns.Message) uint64 {
	n := jsonUnits(&turns.Message{Role: m.Role, Name: m.Name, FinishReason: m.FinishReason})
	for i := range m.Parts {
		n += partUnits(&m.Parts[i])
	}
	if len(m.Parts) > 1 {
		n += uint64(len(m.Parts) - 1) // the commas
	}
	return gsvRate.up(n)
}

// Part counts the JSON of p.
func (GSV) Part(p *turns.Part) uint64 { return gsvRate.down(partUnits(p)) }

// partUnits is the length of the JSON of p, where p was moved to a blob that
// of what remains and of the blob.
func partUnits(p *turns.Part) uint64 {
	one := turns.Message{Parts: []turns.Part{*p}}
	var moved uint64
	if p.Ref != nil {
		one.Parts[0].Ref, moved = nil, p.Ref.Size
	}
	return Sub(jsonUnits(&one), emptyMessage) + moved
}

// emptyMessage is the length of the JSON of a message of nothing.
const emptyMessage = uint64(len(`{"role":"","parts":[]}`))

// jsonUnits is the length of the JSON of m in UTF-16 units. A message that has
// no JSON, which none has that was validated, counts its texts.
func jsonUnits(m *turns.Message) uint64 {
	if b, err := turns.EncodeJSON(m); err == nil {
		return UTF16Len(string(b))
	}
	n := emptyMessage + UTF16Len(m.Name) + UTF16Len(m.FinishReason)
	for i := range m.Parts {
		p := &m.Parts[i]
		n += UTF16Len(p.Content) + UTF16Len(p.ID) + UTF16Len(p.Name) +
			uint64(len(p.Arguments)+len(p.Response)+len(p.Data)+len(p.Ext))
	}
	return n
}

// Spec008 counts a quarter of a token for each code point of the whole
// payload: text, reasoning with its signature, names, ids, arguments and
// results of tools. An image or another blob counts as [Approx] takes it, not
// by bytes. There is no framing but the rounding, once for each message.
type Spec008 struct{}

// Name is "spec008-1".
func (Spec008) Name() string { return "spec008-1" }

// Text counts the code points of s.
func (Spec008) Text(s string) uint64 { return spec008Rate.up(codePoints(s)) }

// Message counts the payload of m.
func (Spec008) Message(m *turns.Message) uint64 {
	return spec008Rate.up(messagePayload(m, spec008Rate, codePoints))
}

// Part counts the payload of p.
func (Spec008) Part(p *turns.Part) uint64 {
	return spec008Rate.down(payload(p, spec008Rate, codePoints))
}

// Wolffish counts a token for each 1.5 UTF-16 units of the same payload as
// [Spec008]. That is two to three times what most models count, and meant so:
// a compaction too early costs less than a request that is refused.
type Wolffish struct{}

// Name is "wolffish-1".
func (Wolffish) Name() string { return "wolffish-1" }

// Text counts the UTF-16 units of s.
func (Wolffish) Text(s string) uint64 { return wolffishRate.up(UTF16Len(s)) }

// Message counts the payload of m.
func (Wolffish) Message(m *turns.Message) uint64 {
	return wolffishRate.up(messagePayload(m, wolffishRate, UTF16Len))
}

// Part counts the payload of p.
func (Wolffish) Part(p *turns.Part) uint64 {
	return wolffishRate.down(payload(p, wolffishRate, UTF16Len))
}

func messagePayload(m *turns.Message, r rate, length func(string) uint64) (units uint64) {
	for i := range m.Parts {
		units += payload(&m.Parts[i], r, length)
	}
	return units
}

// payload is the units of what p says, by length. Arguments and results are
// measured as the JSON that they are, as a blob that holds one would be.
func payload(p *turns.Part, r rate, length func(string) uint64) uint64 {
	switch p.Type {
	case turns.Blob, turns.URI, turns.File:
		return blobTokens * r.den / r.num
	}
	n := length(p.Name) + length(p.ID)
	if p.Type == turns.Reasoning {
		n += length(string(p.Ext))
	}
	if p.Ref != nil {
		return n + p.Ref.Size
	}
	return n + length(p.Content) + length(string(p.Arguments)) + length(string(p.Response))
}
