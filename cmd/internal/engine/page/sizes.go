package page

import (
	"fmt"
	"unicode/utf8"

	"nexus/ledger"
	"nexus/turns"
)

// Invariant: one message can show every event that the engine stores. The engine
// moves the content of large parts to blobs. It can't move anything else (meta, ext,
// recipes, settings, very many small parts), so it measures them before it stores
// the event, as the JSON of replies.

// EscapedSize returns how many bytes s takes as a JSON string, without the quotes.
func EscapedSize[T string | []byte](s T) int {
	n := len(s)
	for i := range len(s) {
		n += int(escapes[s[i]])
	}
	return n
}

// escapes is how many bytes the escape of a byte adds to it.
var escapes = func() (out [256]uint8) {
	for c := range byte(' ') {
		out[c] = uint8(len(`\u0000`) - 1)
	}
	for _, c := range []byte("\"\\\b\f\n\r\t") {
		out[c] = 1
	}
	return out
}()

// ClipJSON returns the beginning of s that takes at most limit bytes as a JSON
// string, with a mark where it was cut.
func ClipJSON(s string, limit int) string {
	if len(s) <= limit/6 || EscapedSize(s) <= limit {
		return s
	}
	const mark = "…"
	n := 0
	for room := limit - len(mark); n < len(s); n++ {
		if room -= EscapedSize(s[n : n+1]); room < 0 {
			break
		}
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// FieldSize is how many bytes of JSON one member of a request takes in replies.
type FieldSize struct {
	Field string
	Bytes int
	Part  string // the part of the field that is counted; "" means all of it
}

// CheckFit checks that sizes and rest, the size of everything else, total at most
// limit. The error is [ledger.ErrTooLarge] and names the largest of sizes.
func CheckFit(limit, rest int, sizes ...FieldSize) error {
	total := rest
	largest := FieldSize{Bytes: -1}
	for _, s := range sizes {
		if total += s.Bytes; s.Bytes > largest.Bytes {
			largest = s
		}
	}
	if total <= limit {
		return nil
	}
	of := "all of it"
	if largest.Part != "" {
		of = largest.Part
	}
	return &turns.FieldError{Field: largest.Field, Kind: ledger.ErrTooLarge,
		Reason: fmt.Sprintf("a reply would show %d bytes of the request, %d of them from here (%s); %d is the most. Only the content of large parts is moved to blobs",
			total, largest.Bytes, of, limit)}
}

// CheckText checks that s, a text next to a body, takes at most limit bytes of JSON.
func CheckText(field, s string, limit int) error {
	if n := EscapedSize(s); n > limit {
		return &turns.FieldError{Field: field, Reason: fmt.Sprintf("%d bytes as JSON, %d is the most", n, limit), Kind: ledger.ErrTooLarge}
	}
	return nil
}

// EncodedSize returns how many bytes of JSON v takes.
func EncodedSize(v any) (int, error) {
	b, err := turns.EncodeJSON(v)
	return len(b), err
}
