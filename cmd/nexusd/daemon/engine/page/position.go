package page

import (
	"strconv"

	"nexus/turns"
)

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
