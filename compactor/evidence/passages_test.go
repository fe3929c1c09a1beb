package evidence

import (
	"slices"
	"strings"
	"testing"

	"nexus/compactor/summary"
	"nexus/turns"
)

// Base64 has no spaces and a slash each 64 characters. What is compared of it stays a small
// multiple of its length.
func TestLongWordIsNotComparedPieceByPiece(t *testing.T) {
	text := strings.Repeat(strings.Repeat("Ab3", 21)+"/", 2048)
	n := 0
	eachToken(text, func(w string) { n += len(w) })
	if n > 4*len(text) {
		t.Errorf("a word of %d bytes gives %d bytes of tokens", len(text), n)
	}
	var got []string
	eachToken("see a/b/c.go", func(w string) { got = append(got, w) })
	for _, want := range []string{"a/b/c.go", "a", "b/c.go", "a/b", "c.go"} {
		if !slices.Contains(got, want) {
			t.Errorf("a path gives no %q: %q", want, got)
		}
	}
}

func TestPassagesKeepTheBestOfAHalf(t *testing.T) {
	var h summary.HalfTurn
	for _, text := range []string{"zebra 1", "zebra 2", "zebra 3", "zebra 4", "zebra 5", "zebra lion"} {
		h.Messages = append(h.Messages, turns.TextMessage(turns.User, text))
	}
	var got []string
	for _, p := range ParseQuery("zebra lion").Passages(&h) {
		got = append(got, p.Text)
	}
	if want := []string{"zebra 1", "zebra 2", "zebra 3", "zebra lion"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
