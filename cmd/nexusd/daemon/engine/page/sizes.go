package page

import (
	"fmt"
	"unicode/utf8"

	"nexus/ledger"
	"nexus/turns"
)

// What is stored must be readable afterwards, in a message that has room for
// it. Content of parts is moved to blobs where there is too much of it. Nothing
// else can be moved (meta, ext, recipes, settings, very many small parts), so
// that is measured before it is stored, as the JSON that replies show.

// EscapedSize is the bytes of s in JSON, without the quotes.
func EscapedSize[T string | []byte](s T) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\' || c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return n
}

// ClipJSON is as much of s as has most bytes in JSON, and a mark where it ends.
func ClipJSON(s string, most int) string {
	if len(s) <= most/6 || EscapedSize(s) <= most {
		return s
	}
	const cut = "…"
	n := 0
	for room := most - len(cut); n < len(s); n++ {
		if room -= EscapedSize(s[n : n+1]); room < 0 {
			break
		}
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + cut
}

// share is what a member of a request takes of the room that replies have.
type FieldSize struct {
	Field string
	Bytes int
	Part  string // which part of the field; "": all
}

// CheckFit checks that shares, and what else is shown with them, are not more than
// most. The field of the error is the one that takes the most.
func CheckFit(most, beside int, shares ...FieldSize) error {
	total := beside
	largest := FieldSize{Bytes: -1}
	for _, s := range shares {
		if total += s.Bytes; s.Bytes > largest.Bytes {
			largest = s
		}
	}
	if total <= most {
		return nil
	}
	of := "all of it"
	if largest.Part != "" {
		of = largest.Part
	}
	return &turns.FieldError{Field: largest.Field, Kind: ledger.ErrTooLarge,
		Reason: fmt.Sprintf("a reply would show %d bytes of the request, %d of them from here (%s); %d is the most. Only the content of large parts is moved to blobs",
			total, largest.Bytes, of, most)}
}

// CheckText checks a single text that is shown beside a body.
func CheckText(field, s string, most int) error {
	if n := EscapedSize(s); n > most {
		return &turns.FieldError{Field: field, Reason: fmt.Sprintf("%d bytes as JSON, %d is the most", n, most), Kind: ledger.ErrTooLarge}
	}
	return nil
}

func EncodedSize(v any) (int, error) {
	b, err := turns.EncodeJSON(v)
	return len(b), err
}
