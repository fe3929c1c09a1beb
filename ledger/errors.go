package ledger

import (
	"errors"
	"fmt"

	"nexus/turns"
)

// The decisions of the ledger, for errors.Is. Each has one code in the
// outside contract; package api pins the pairs.
var (
	ErrConflict      = errors.New("conflict")
	ErrNotFound      = errors.New("not found")
	ErrUnavailable   = errors.New("unavailable")
	ErrIndeterminate = errors.New("indeterminate")
	ErrIDReused      = errors.New("id reused")
	ErrClosed        = errors.New("closed")
	ErrDenied        = errors.New("denied")
	ErrUnprocessable = errors.New("unprocessable")
	ErrBusy          = errors.New("busy")

	ErrMalformed   = turns.ErrMalformed
	ErrUnsupported = turns.ErrUnsupported
	ErrTooLarge    = turns.ErrTooLarge
	ErrErased      = turns.ErrErased
	ErrCorrupt     = turns.ErrCorrupt
)

// ErrHistory says that a [History] could not be read, and nothing of the event that needed
// it. Its kind is that of the error that it comes with.
var ErrHistory = errors.New("the history could not be read")

// ErrDuplicateOpening says that a session is opened under an id that an opening
// earlier on the log has, on another subject. Two daemons can store both if neither
// knows of the other yet. The later one opens nothing. It is an [ErrCorrupt].
var ErrDuplicateOpening = fmt.Errorf("%w: the id was taken by an earlier opening", ErrCorrupt)

// ConflictError says that a chain's tail is not where an append expected it.
// Unwrap gives [ErrConflict].
type ConflictError struct {
	Subject string
	Want    uint64 // expected position of the last record
	Got     uint64 // position of the record that follows Want; 0 if it is not known
}

func (e *ConflictError) Error() string {
	if e.Got == 0 {
		return fmt.Sprintf("append to %s: expected the tail at %d, it has moved", e.Subject, e.Want)
	}
	return fmt.Sprintf("append to %s: expected the tail at %d, but %d follows it", e.Subject, e.Want, e.Got)
}

// Unwrap gives ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }
