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

// StaleCursor is the answer to a cursor whose pages can no longer be made: what
// they are of depends on settings, which were changed since.
func StaleCursor(what string) error {
	return &api.Error{Code: api.Conflict, Message: "the " + what + " is not that of the first page any more: begin again, without after",
		Details: map[string]any{"field": "/after"}}
}

// DigestPrefix is enough of a digest to tell whether two are the same by accident.
func DigestPrefix(h turns.Hash) string { return hex.EncodeToString(h[:8]) }

// RuneBoundary is the largest n up to most where b has a whole character before it.
func RuneBoundary(b []byte, most int) int {
	for n := most; n > most-utf8.UTFMax && n > 0; n-- {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	return most
}

// contextCursor is where a page of a context begins.
type ContextCursor struct {
	At                turns.ID
	Messages, Sources int    // that earlier pages held
	Offset            int    // bytes of the next message that earlier pages held
	Digest            string // beginning of a digest of what all the pages are of
	Started           bool
}

func (c ContextCursor) String() string {
	return fmt.Sprintf("%s~%d~%d~%d~%s", c.At, c.Messages, c.Offset, c.Sources, c.Digest)
}

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

// FormatPosition and parsePosition are the opaque positions of the contract.
func FormatPosition(seq uint64) string { return "p" + strconv.FormatUint(seq, 36) }

func ParsePosition(s string) (uint64, error) {
	if len(s) > 1 && s[0] == 'p' {
		if n, err := strconv.ParseUint(s[1:], 36, 64); err == nil {
			return n, nil
		}
	}
	return 0, &turns.FieldError{Field: "/min_position", Reason: "not a position", Kind: turns.ErrMalformed}
}
