package compare

import (
	"bytes"
	"slices"

	"nexus/turns"
	"nexus/turns/tokens"
)

// Usage counts tokens as a provider with a prefix cache bills them. A call reads
// from the cache the longest run of whole messages, system and tools first, that the
// last call began with too. It writes the rest to the cache. The model ignores that
// caches expire and may hold less than the whole prefix.
type Usage struct {
	Read   uint64 `json:"cache_read"`
	Write  uint64 `json:"cache_write"`
	Output uint64 `json:"output"`
}

// Prompt returns the tokens sent.
func (u Usage) Prompt() uint64 { return u.Read + u.Write }

func (u Usage) add(v Usage) Usage {
	return Usage{Read: u.Read + v.Read, Write: u.Write + v.Write, Output: u.Output + v.Output}
}

// DefaultPrice is Anthropic's list price for its Sonnet models: for a million
// tokens, 3.00 dollars of input, 0.30 read from the cache, 3.75 written to it, 15.00
// of output.
var DefaultPrice = tokens.Price{Input: 3_000_000, CacheRead: 300_000, CacheWrite: 3_750_000, Output: 15_000_000}

// Cost returns the price of u with the cache, in micro-dollars, rounded down.
func (u Usage) Cost(p tokens.Price) uint64 {
	return (u.Read*p.CacheRead + u.Write*p.CacheWrite + u.Output*p.Output) / 1_000_000
}

// Uncached returns the price of u without a cache, in micro-dollars, rounded down.
func (u Usage) Uncached(p tokens.Price) uint64 {
	return (u.Prompt()*p.Input + u.Output*p.Output) / 1_000_000
}

// commonPrefix returns how many messages a and b share at the start.
func commonPrefix(a, b []turns.Message) int {
	n := 0
	for n < len(a) && n < len(b) && sameMessage(&a[n], &b[n]) {
		n++
	}
	return n
}

// sameMessage reports whether two messages are sent as the same bytes. Messages of
// one half share their parts, so most comparisons compare pointers.
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
