package page

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// What is stored must be readable afterwards, in a message that has room for
// it. Content of parts is moved to blobs where there is too much of it. Nothing
// else can be moved (meta, ext, recipes, settings, very many small parts), so
// that is measured before it is stored, as the JSON that replies show.

// BodyBytes is how many bytes of JSON an event's body may have in a reply.
// What stands beside it in a turn or a page has the rest of the message: a
// compaction has a summary, a list of elisions and more.
func (l *Limits) BodyBytes(body any) int {
	if _, ok := body.(*turns.CompactionBody); ok {
		return l.Payload() / 2
	}
	return l.Payload() / 4 * 3
}

// SummaryBytes is how many bytes of JSON of a compaction's summary are shown.
// One of ours that is longer is whole in the replacement, or in its blob.
func (l *Limits) SummaryBytes() int { return l.Payload() / 8 }

// SettingsBytes is how many bytes of JSON a session's settings may have. They
// stand in session.get, and before the messages on the first page of a context.
func (l *Limits) SettingsBytes() int { return l.Payload() / 2 }

// TextBytes is how many bytes of JSON a single text may have that is shown
// beside a body.
func (l *Limits) TextBytes() int { return l.Payload() / 16 }

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

// TrimCalls leaves of an ack's lists of calls what has room in it.
func (l *Limits) TrimCalls(ack *api.Appended) {
	room := l.Payload() / 2
	for _, ids := range []*[]string{&ack.Open, &ack.Abandoned, &ack.Late} {
		for i, id := range *ids {
			if room -= 3 + EscapedSize(id); room < 0 {
				*ids, ack.CallsCut = slices.Clip((*ids)[:i]), true
				break
			}
		}
	}
}
