package compare

import (
	"bytes"
	"slices"

	"nexus/turns"
	"nexus/turns/tokens"
)

// Usage is tokens as a provider with a prefix cache bills them. Of a call, the
// longest run of whole messages that the last call began with too is read from
// the cache, system and tools first; the rest is written to it. A cache that
// ends with time, or that holds less than the whole prefix, is not modelled.
type Usage struct {
	Read   uint64 `json:"cache_read"`
	Write  uint64 `json:"cache_write"`
	Output uint64 `json:"output"`
}

// Prompt is the tokens sent.
func (u Usage) Prompt() uint64 { return u.Read + u.Write }

func (u Usage) add(v Usage) Usage {
	return Usage{Read: u.Read + v.Read, Write: u.Write + v.Write, Output: u.Output + v.Output}
}

// DefaultPrice is 3.00 dollars for a million tokens of input, 0.30 from the
// cache, 3.75 into it, 15.00 of output, as Anthropic lists its Sonnet models.
var DefaultPrice = tokens.Price{Input: 3_000_000, CacheRead: 300_000, CacheWrite: 3_750_000, Output: 15_000_000}

// Cost is what u costs with the cache, in micro-dollars, rounded down.
func (u Usage) Cost(p tokens.Price) uint64 {
	return (u.Read*p.CacheRead + u.Write*p.CacheWrite + u.Output*p.Output) / 1_000_000
}

// Uncached is what u would cost without a cache, in micro-dollars, rounded down.
func (u Usage) Uncached(p tokens.Price) uint64 {
	return (u.Prompt()*p.Input + u.Output*p.Output) / 1_000_000
}

// commonPrefix is how many messages a and b both begin with.
func commonPrefix(a, b []turns.Message) int {
	n := 0
	for n < len(a) && n < len(b) && sameMessage(&a[n], &b[n]) {
		n++
	}
	return n
}

// sameMessage reports whether two messages are sent as the same bytes. Those of
// one half share their parts, which makes most comparisons one of pointers.
func sameMessage(a, b *turns.Message) bool {
	if a.Role != b.Role || a.Name != b.Name || len(a.Parts) != len(b.Parts) {
		return false
	}
	return len(a.Parts) == 0 || &a.Parts[0] == &b.Parts[0] || slices.EqualFunc(a.Parts, b.Parts, samePart)
}

func samePart(a, b turns.Part) bool {
	return a.Type == b.Type && a.ID == b.ID && a.Name == b.Name && a.IsError == b.IsError && a.Modality == b.Modality && a.MimeType == b.MimeType &&
		a.Content == b.Content && bytes.Equal(a.Arguments, b.Arguments) && bytes.Equal(a.Response, b.Response) && bytes.Equal(a.Data, b.Data) &&
		bytes.Equal(a.Ext, b.Ext) && (a.Ref == b.Ref || a.Ref != nil && b.Ref != nil && a.Ref.Digest == b.Ref.Digest)
}
