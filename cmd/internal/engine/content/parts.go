package content

import (
	"slices"
	"unicode/utf8"

	"nexus/turns"
)

// CopyParts gives a body its own messages and parts. Later changes to them do not
// reach the request or the plan that the body was made from, which a retry after a
// lost compare-and-set needs unchanged.
func CopyParts(body any) {
	clone := func(ms []turns.Message) []turns.Message {
		ms = slices.Clone(ms)
		for i := range ms {
			ms[i].Parts = slices.Clone(ms[i].Parts)
		}
		return ms
	}
	switch b := body.(type) {
	case *turns.TurnBody:
		b.Messages = clone(b.Messages)
		if b.Response != nil {
			b.Response = &clone([]turns.Message{*b.Response})[0]
		}
	case *turns.CompactionBody:
		b.Replacement = clone(b.Replacement)
	}
}

// BodyParts returns the parts of a body that may be moved to blobs.
func BodyParts(body any) (parts []*turns.Part) {
	add := func(ms []turns.Message) {
		for i := range ms {
			for j := range ms[i].Parts {
				parts = append(parts, &ms[i].Parts[j])
			}
		}
	}
	switch b := body.(type) {
	case *turns.TurnBody:
		add(b.Messages)
		if b.Response != nil {
			for j := range b.Response.Parts {
				parts = append(parts, &b.Response.Parts[j])
			}
		}
	case *turns.CompactionBody:
		add(b.Replacement)
		add(b.Nudge)
	}
	return parts
}

// MessageParts returns the parts of messages, in their order.
func MessageParts(ms []turns.Message) (parts []*turns.Part) {
	for i := range ms {
		for j := range ms[i].Parts {
			parts = append(parts, &ms[i].Parts[j])
		}
	}
	return parts
}

// PartSize returns how many bytes of content a part holds itself, 0 if it is a ref.
func PartSize(p *turns.Part) int {
	if p.Ref != nil {
		return 0
	}
	return len(p.ContentBytes())
}

// MessagesSize returns how many bytes of content messages hold themselves, previews
// included.
func MessagesSize(ms []turns.Message) (n int) {
	for i := range ms {
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			if n += PartSize(p) + len(p.Ext); p.Ref != nil {
				n += len(p.Ref.Preview)
			}
		}
	}
	return n
}

// Preview returns the first [PreviewBytes] of s, cut between characters.
func Preview(s string) string {
	if len(s) <= PreviewBytes {
		return s
	}
	s = s[:PreviewBytes]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
