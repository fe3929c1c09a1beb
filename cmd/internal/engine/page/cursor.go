package page

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"nexus/ledger/api"
	"nexus/turns"
)

// StaleCursor returns the error for a cursor whose pages can't be made any more,
// because the settings that they depend on were changed. name says what the pages
// show.
func StaleCursor(name string) error {
	return &api.Error{Code: api.Conflict, Message: "the " + name + " is not that of the first page any more: begin again, without after",
		Details: map[string]any{"field": "/after"}}
}

// DigestPrefix returns enough of a digest for a cursor to notice that a digest
// changed.
func DigestPrefix(h turns.Hash) string { return hex.EncodeToString(h[:8]) }

// RuneBoundary returns the largest n up to limit at which b can be cut without
// splitting a character.
func RuneBoundary(b []byte, limit int) int {
	for n := limit; n > limit-utf8.UTFMax && n > 0; n-- {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	return limit
}

// ContextCursor is the place where a page of a context begins. The zero value is the
// beginning of the first page.
type ContextCursor struct {
	At                turns.ID // the turn whose context the pages show
	Messages, Sources int      // how many of them earlier pages held
	Offset            int      // how many bytes of the next message earlier pages held
	Digest            string   // prefix of a digest of the whole context
	Started           bool     // false for the first page
}

// String returns the cursor as a page gives it in next.
func (c ContextCursor) String() string {
	return fmt.Sprintf("%s~%d~%d~%d~%s", c.At, c.Messages, c.Offset, c.Sources, c.Digest)
}

// ParseContextCursor parses the next of a page. The empty string is the zero cursor.
func ParseContextCursor(after string) (c ContextCursor, err error) {
	if after == "" {
		return c, nil
	}
	f := strings.Split(after, "~")
	ok := len(f) == 5
	if ok {
		c.Digest = f[4]
		c.At, err = turns.ParseID(f[0])
		for i, to := range []*int{&c.Messages, &c.Offset, &c.Sources} {
			n, nerr := strconv.ParseUint(f[i+1], 10, 31)
			*to, err = int(n), errors.Join(err, nerr)
		}
	}
	c.Started = true
	if !ok || err != nil {
		return ContextCursor{}, api.FieldErrorf("/after", "not what a page gave as next")
	}
	return c, nil
}

// OptionalID parses the id in a member of a request. The empty string is the zero
// ID.
func OptionalID(field, s string) (turns.ID, error) {
	if s == "" {
		return turns.ID{}, nil
	}
	id, err := turns.ParseID(s)
	if err != nil || id.IsZero() {
		return id, api.FieldErrorf(field, "not an id")
	}
	return id, nil
}

// FormatPosition returns the opaque position of the contract for a sequence number.
func FormatPosition(seq uint64) string { return "p" + strconv.FormatUint(seq, 36) }

// ParsePosition parses a position that [FormatPosition] made, or a sequence number in decimal.
func ParsePosition(s string) (uint64, error) {
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return n, nil
	}
	if len(s) > 1 && s[0] == 'p' {
		if n, err := strconv.ParseUint(s[1:], 36, 64); err == nil {
			return n, nil
		}
	}
	return 0, &turns.FieldError{Field: "/min_position", Reason: "not a position", Kind: turns.ErrMalformed}
}
