package seal

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"nexus/turns"
	"nexus/turns/seal/internal/crypt"
)

// partsBody is a turn with n parts in two messages and a response.
func partsBody(t testing.TB, n int) []byte {
	body := &turns.TurnBody{Model: "m"}
	for i := range n {
		p := turns.TextPart(string(rune('a' + i%26)))
		switch {
		case i%3 == 2 && body.Response == nil:
			body.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{p}}
		case i%3 == 2:
			body.Response.Parts = append(body.Response.Parts, p)
		default:
			body.Messages = append(body.Messages, turns.Message{Role: turns.User, Parts: []turns.Part{p}})
		}
	}
	b, err := turns.EncodeBody(body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEachLeafIsShownAlone: of every body, each leaf checks, and nothing else does: another
// leaf's place, bytes, salt or path, a node of the tree as a leaf, another event's commitment.
func TestEachLeafIsShownAlone(t *testing.T) {
	ring := goldenRing()
	for n := range 20 {
		e, next := turnEvent(), turnEvent()
		next.Index++
		body := partsBody(t, n)
		for _, e := range []*turns.Event{e, next} {
			if err := Seal(e, body, ring, []turns.ID{goldenID(1)}, rand.Reader); err != nil {
				t.Fatal(err)
			}
		}
		if e.Commitment == next.Commitment {
			t.Fatal("equal bodies of two events have one commitment: what one says can be tested against the other")
		}
		var all []*turns.Disclosed
		for leaf := range n + 1 {
			d, err := Disclose(e, ring, leaf)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Check(e.Commitment); err != nil {
				t.Fatalf("leaf %d of %d: %v", leaf, n+1, err)
			}
			all = append(all, d)
		}
		if _, err := Disclose(e, ring, n+1); !errors.Is(err, turns.ErrMalformed) {
			t.Errorf("a leaf too many: %v", err)
		}
		for i, d := range all {
			refused := func(what string, change func(d *turns.Disclosed)) {
				c := *d
				c.Bytes, c.Path = bytes.Clone(d.Bytes), append([]turns.Hash(nil), d.Path...)
				change(&c)
				if err := c.Check(e.Commitment); !errors.Is(err, turns.ErrCorrupt) {
					t.Errorf("%d leaves, leaf %d, %s: %v", n+1, i, what, err)
				}
			}
			if err := d.Check(next.Commitment); err == nil {
				t.Error("a leaf is taken for one of another event")
			}
			refused("a byte", func(d *turns.Disclosed) { d.Bytes[0] ^= 1 })
			refused("the salt", func(d *turns.Disclosed) { d.Salt[31] ^= 1 })
			refused("a longer path", func(d *turns.Disclosed) { d.Path = append(d.Path, turns.Hash{1}) })
			if len(d.Path) > 0 {
				refused("a shorter path", func(d *turns.Disclosed) { d.Path = d.Path[1:] })
				refused("the path", func(d *turns.Disclosed) { d.Path[0][0] ^= 1 })
				refused("a node as a leaf", func(d *turns.Disclosed) {
					left := sha256.Sum256(append(append([]byte{0}, d.Salt[:]...), d.Bytes...))
					d.Salt, d.Bytes, d.Path, d.Leaf, d.Count = left, d.Path[0][:], d.Path[1:], d.Leaf/2, (d.Count+1)/2
				})
			}
			for j, other := range all {
				if i != j && other.Count > 1 {
					refused("at the place of another", func(d *turns.Disclosed) { d.Leaf = j })
				}
			}
		}
	}
}

// TestPartsOfABodyAreItsParts: the parts that a commitment is made of are those of the messages, and
// leaf 0 has everything else.
func TestPartsOfABodyAreItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 40, -1)
		message := func() turns.Message {
			m := turns.Message{Role: turns.User, Name: text.Draw(t, "name")}
			for range rapid.IntRange(0, 3).Draw(t, "parts") {
				m.Parts = append(m.Parts, turns.TextPart(text.Draw(t, "text")))
			}
			return m
		}
		kind, v := turns.KindTurn, any(nil)
		a, b := message(), message()
		parts := append(append([]turns.Part(nil), a.Parts...), b.Parts...)
		if rapid.Bool().Draw(t, "compaction") {
			kind, v = turns.KindCompaction, &turns.CompactionBody{Summary: text.Draw(t, "summary"), Replacement: []turns.Message{a}, Nudge: []turns.Message{b}, DurationMS: 7}
		} else {
			v = &turns.TurnBody{Messages: []turns.Message{a}, Response: &b, Model: text.Draw(t, "model")}
		}
		body, err := turns.EncodeBody(v)
		if err != nil {
			t.Fatal(err)
		}
		spans, err := turns.PartSpans(kind, body)
		if err != nil || len(spans) != len(parts) {
			t.Fatalf("%d parts, want %d: %v", len(spans), len(parts), err)
		}
		for i, s := range spans {
			want, err := turns.EncodeBody(&turns.TurnBody{Response: &turns.Message{Parts: []turns.Part{parts[i]}}})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(want, body[s[0]:s[1]]) {
				t.Fatalf("part %d is %x, want one in %x", i, body[s[0]:s[1]], want)
			}
		}
		cut := rapid.IntRange(0, len(body)-1).Draw(t, "cut")
		if _, err := turns.PartSpans(kind, body[:cut]); !errors.Is(err, turns.ErrMalformed) {
			t.Fatalf("the parts of %d of %d bytes are found: %v", cut, len(body), err)
		}
	})
}

// TestADigestIsOfOneEventAndOneRequest: the digest of a request in a header is kept under
// the event's key: the same request has another digest in another event, and nobody can test a guess
// of it without that key.
func TestADigestIsOfOneEventAndOneRequest(t *testing.T) {
	ring := goldenRing()
	request := RequestDigest("turn.append", []byte(`{"phone":"555"}`))
	for name, body := range map[string][]byte{"with a body": partsBody(t, 1), "without a body": nil} {
		first, second := turnEvent(), turnEvent()
		second.Index++
		for _, e := range []*turns.Event{first, second} {
			e.Digest = request
			if err := Seal(e, body, ring, []turns.ID{goldenID(1)}, rand.Reader); err != nil {
				t.Fatal(err)
			}
			if same, err := SameRequest(e, ring, request); err != nil || !same {
				t.Errorf("%s: the request is not known again: %v", name, err)
			}
			if same, err := SameRequest(e, ring, RequestDigest("turn.append", []byte(`{"phone":"556"}`))); err != nil || same {
				t.Errorf("%s: another request is taken for it: %v", name, err)
			}
		}
		if first.Digest == second.Digest || first.Digest == request {
			t.Errorf("%s: one digest in two events", name)
		}
	}
	e := turnEvent()
	e.Digest = request
	if err := Seal(e, partsBody(t, 1), ring, []turns.ID{goldenID(1), goldenID(2)}, rand.Reader); err != nil {
		t.Fatal(err)
	}
	gone := goldenRing()
	gone[goldenID(2)] = nil
	if _, err := SameRequest(e, gone, request); !errors.Is(err, turns.ErrErased) {
		t.Errorf("a digest over an erased session: %v", err)
	}
}

// TestOnePositionSealedTwiceSharesNoNonce: a lost compare-and-set seals another body at the
// same index, so under the same key.
func TestOnePositionSealedTwiceSharesNoNonce(t *testing.T) {
	ring, seen := goldenRing(), map[string]bool{}
	for n := range 50 {
		e := turnEvent()
		if err := Seal(e, partsBody(t, n), ring, []turns.ID{goldenID(1)}, rand.Reader); err != nil {
			t.Fatal(err)
		}
		nonce := string(e.Body[:crypt.NonceSize])
		if seen[nonce] {
			t.Fatal("one nonce twice under one key")
		}
		seen[nonce] = true
	}
}
