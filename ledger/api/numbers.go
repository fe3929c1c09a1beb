package api

import (
	"strconv"
	"strings"

	"nexus/turns"
)

// maxNumber is the largest number that a reply has as a JSON number: readers in other languages hold these as doubles.
const maxNumber = 1 << 53

// Uint is a whole number from 0 without a bound, such as a size of the log. A reply has it as a JSON number, above 2^53 as a
// string. It is read from both, as each unsigned number of a request is; see [turns.DecodeRequest].
type Uint uint64

// MarshalJSON writes a number, or a string.
func (n Uint) MarshalJSON() ([]byte, error) {
	b := strconv.AppendUint(nil, uint64(n), 10)
	if n > maxNumber {
		b = append(append([]byte{'"'}, b...), '"')
	}
	return b, nil
}

// UnmarshalJSON reads a whole number from 0, or a string that holds one.
func (n *Uint) UnmarshalJSON(b []byte) error {
	text := strings.TrimSuffix(strings.TrimPrefix(string(b), `"`), `"`)
	v, err := strconv.ParseUint(text, 10, 64)
	if string(b) == "null" {
		v, err = 0, nil
	}
	if err != nil {
		return &turns.FieldError{Reason: "a whole number from 0 can stand here, or a string that holds one", Kind: turns.ErrMalformed}
	}
	*n = Uint(v)
	return nil
}

// Position is a place in the log as a request names it: what a reply gave as position, or the number of the place, as
// audit.verify has it, as a number or a string.
type Position string

// UnmarshalJSON reads a string, or a whole number.
func (p *Position) UnmarshalJSON(b []byte) error {
	text, ok := turns.Raw(b).Text()
	if !ok && string(b) != "null" {
		if _, err := strconv.ParseUint(string(b), 10, 64); err != nil {
			return &turns.FieldError{Reason: "a position is a string, or a whole number", Kind: turns.ErrMalformed}
		}
		text = string(b)
	}
	*p = Position(text)
	return nil
}
