package tokens

import (
	"strings"
	"unicode/utf8"

	"nexus/turns"
)

// Counter counts the tokens of text and messages. Counters are values without
// state, safe for concurrent use; equal input gives equal counts on every
// machine. What they count has been validated (UTF-8, sizes); other input
// gives some count and no panic. See [Named].
type Counter interface {
	// Name is stable and stored beside every count. Another way of counting
	// is another name.
	Name() string

	// Text counts s alone, rounded up.
	Text(s string) uint64

	// Message counts m as it is sent: its framing and its parts.
	//
	// Invariant: the Part of every part, added up, is at most Message.
	Message(m *turns.Message) uint64

	// Part is the share that p has in its message's count. The rest is the
	// message's framing, which takes fractions of a token as well. A part
	// whose content was moved to a blob counts a character for each byte of
	// it, as the blob itself isn't read.
	Part(p *turns.Part) uint64
}

// Approx estimates from characters alone: fast, deterministic, without a
// vocabulary. ASCII counts 1/3.7 of a token a character and everything else
// 0.8 a character; over real agents' transcripts the ASCII figure lies
// between 3.6 and 4.2. It errs on the high side, which is the safe one.
type Approx struct{}

// Name is "approx-1".
func (Approx) Name() string { return "approx-1" }

// Text estimates the tokens of s.
func (Approx) Text(s string) uint64 {
	ascii, other := 0, 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			ascii++
			i++
			continue
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		other++
		i += n
	}
	return uint64((ascii*10 + other*30 + 36) / 37) // 30/37 = 0.81
}

// Clip returns s, or the beginning of s of about n tokens: it ends with a whole
// rune and the mark " [cut]". It returns "" where not even one rune has room.
func (a Approx) Clip(s string, n uint64) string {
	if a.Text(s) <= n {
		return s
	}
	const mark = " [cut]"
	used := a.Text(mark) + 1
	weight := uint64(0) // in units of 1/37 token, as Text counts
	for i, r := range s {
		if r < utf8.RuneSelf {
			weight += 10
		} else {
			weight += 30
		}
		if weight/37+used > n {
			if i == 0 {
				return ""
			}
			return strings.TrimSpace(s[:i]) + mark
		}
	}
	return s
}

// blobTokens is what an image or another blob is taken for: providers bill
// images by area, around 1,500 tokens for a full one, not by bytes.
const blobTokens = 1500

// Message estimates a message: its parts, and 4 tokens of framing each for
// the message and for every part that is not text.
func (a Approx) Message(m *turns.Message) uint64 { return framed(a, m) }

// Part estimates one part.
func (a Approx) Part(p *turns.Part) uint64 { return framedPart(a, p) }

// framed is a message by a counter of tokens, with the framing that chat
// formats add.
func framed(c Counter, m *turns.Message) uint64 {
	n := uint64(4)
	for i := range m.Parts {
		n += c.Part(&m.Parts[i])
	}
	return n
}

func framedPart(c Counter, p *turns.Part) uint64 {
	switch p.Type {
	case turns.Text:
		if p.Ref != nil {
			return p.Ref.Size * 10 / 37
		}
		return c.Text(p.Content)
	case turns.Reasoning:
		// Signed reasoning is sent back with its signature, which counts too.
		n := 4 + uint64(len(p.Ext))*10/37
		if p.Ref != nil {
			return n + p.Ref.Size*10/37
		}
		return n + c.Text(p.Content)
	case turns.Blob, turns.URI, turns.File:
		return 4 + blobTokens
	}
	n := uint64(4) + c.Text(p.Name) + c.Text(p.ID)
	if p.Ref != nil {
		return n + p.Ref.Size*10/37
	}
	return n + c.Text(string(p.Arguments)) + c.Text(string(p.Response))
}

// Messages adds up the messages of a half turn.
func Messages(c Counter, ms []turns.Message) (n uint64) {
	for i := range ms {
		n += c.Message(&ms[i])
	}
	return n
}
