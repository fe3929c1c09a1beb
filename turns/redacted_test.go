package turns

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func testSalts(name string) Salts {
	return func(leaf int) Hash { return sha256.Sum256(fmt.Appendf(nil, "%s %d", name, leaf)) }
}

// redactable is a turn of parts with these texts: all but the last are of one message, the last is the response.
func redactable(t interface{ Fatal(...any) }, model string, texts []string) []byte {
	b := &TurnBody{Model: model}
	for i, s := range texts {
		if i == len(texts)-1 {
			b.Response = &Message{Role: Assistant, Parts: []Part{TextPart(s)}}
		} else if i == 0 {
			b.Messages = []Message{{Role: User, Parts: []Part{TextPart(s)}}}
		} else {
			b.Messages[0].Parts = append(b.Messages[0].Parts, TextPart(s))
		}
	}
	out, err := EncodeBody(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhatStaysOfARedactedEventProves: after any redactions, one behind the other, what stays is what the header commits to and
// can be shown alone; nothing of what was taken is in the redacted body, not even its salt; and no other body passes.
func TestWhatStaysOfARedactedEventProves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "parts")
		texts := make([]string, n)
		for i := range texts {
			texts[i] = fmt.Sprintf("secret-%d", i)
		}
		salts, model := testSalts("a"), "model-m"
		first := redactable(t, model, texts)
		e := &Event{Kind: KindTurn}
		var err error
		if e.Commitment, err = Commit(KindTurn, first, salts); err != nil {
			t.Fatal(err)
		}
		before, was, taken := first, (*RedactedBody)(nil), map[int]bool{}
		for range rapid.IntRange(1, 3).Draw(t, "redactions") {
			for _, i := range rapid.SliceOfDistinct(rapid.IntRange(0, n), func(i int) int { return i }).Draw(t, "what") {
				if taken[i] = true; i == 0 {
					model = "[redacted]"
				} else {
					texts[i-1] = "[redacted]"
				}
			}
			after := redactable(t, model, texts)
			b, err := Redact(KindTurn, before, after, salts, was)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Check(e); err != nil {
				t.Fatal(err)
			}
			before, was = after, b
		}
		encoded, err := EncodeBody(was)
		if err != nil {
			t.Fatal(err)
		}
		var b RedactedBody
		if err := DecodeBody(encoded, &b); err != nil {
			t.Fatal(err)
		}
		if len(b.Taken()) != len(taken) {
			t.Fatalf("taken %v, want %v", b.Taken(), taken)
		}
		for i := range n + 1 {
			secret, salt := fmt.Sprintf("secret-%d", i-1), salts(i)
			if i == 0 {
				secret = "model-m"
			}
			d, err := b.Disclose(i)
			if taken[i] {
				if !errors.Is(err, ErrErased) || bytes.Contains(encoded, []byte(secret)) || bytes.Contains(encoded, salt[:]) {
					t.Fatalf("leaf %d, which was taken: %v", i, err)
				}
				continue
			}
			if err != nil || d.Check(e.Commitment) != nil || !bytes.Contains(d.Bytes, []byte(secret)) {
				t.Fatalf("leaf %d, which stays: %v, %+v", i, err, d)
			}
		}
		// Each leaf that stays, altered.
		for i := range b.Leaves {
			x := b
			x.Leaves = append([]RedactedLeaf(nil), b.Leaves...)
			x.Leaves[i].Value[3] ^= 1
			if err := x.Check(e); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("leaf %d altered: %v", i, err)
			}
		}
		for i := range texts {
			if taken[i+1] {
				continue
			}
			other := append([]string(nil), texts...)
			other[i] = "forged"
			x := b
			if x.Body = redactable(t, model, other); !errors.Is(x.Check(e), ErrCorrupt) {
				t.Fatalf("part %d forged passes", i+1)
			}
		}
		if _, err := b.Disclose(n + 1); !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
	})
}

// TestARedactedBodyHasAsManyParts: a body with a part more or less is none for the place.
func TestARedactedBodyHasAsManyParts(t *testing.T) {
	first := redactable(t, "m", []string{"a", "b", "c"})
	for _, texts := range [][]string{{"a", "b"}, {"a", "b", "c", "d"}} {
		if _, err := Redact(KindTurn, first, redactable(t, "m", texts), testSalts("a"), nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v: %v", texts, err)
		}
	}
	b, err := Redact(KindTurn, first, redactable(t, "m", []string{"a", "[redacted]", "c"}), testSalts("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Leaves = b.Leaves[:3]
	e := &Event{Kind: KindTurn}
	if err := b.Check(e); !errors.Is(err, ErrMalformed) {
		t.Errorf("a leaf less: %v", err)
	}
	e.Kind = KindCompaction
	if err := b.Check(e); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another kind: %v", err)
	}
}
