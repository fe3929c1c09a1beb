package turns

import (
	"errors"
	"fmt"

	"nexus/turns/internal/cbor"
)

// The decisions of this package, for errors.Is.
var (
	// ErrMalformed: the bytes or arguments break the format.
	ErrMalformed = cbor.ErrMalformed
	// ErrUnsupported: a version or kind that this build does not know. The
	// chain it is on is read-only here; it is never skipped.
	ErrUnsupported = cbor.ErrUnsupported
	// ErrTooLarge: over a limit named in the message.
	ErrTooLarge = cbor.ErrTooLarge
	// ErrErased: the content key is gone, so the body can't be opened.
	ErrErased = errors.New("erased")
	// ErrCorrupt: stored bytes fail a check.
	ErrCorrupt = errors.New("corrupt")
)

// FieldError is a malformed or oversize request that names the offending
// field, as a JSON pointer (RFC 6901) into the request; "" is the whole.
// Unwrap gives [ErrMalformed] or [ErrTooLarge].
type FieldError struct {
	Field  string
	Reason string
	Kind   error
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%v: %s", e.Kind, e.Reason)
	}
	return fmt.Sprintf("%v: %s: %s", e.Kind, e.Field, e.Reason)
}

func (e *FieldError) Unwrap() error { return e.Kind }

// VersionError says that something is of a version that this build does not know, and a later one may. Unwrap gives
// [ErrUnsupported].
type VersionError struct {
	What    string // what has the version
	Version string // that is needed
	Known   string // the newest that this build knows
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%v: %s version %s, this build knows %s", ErrUnsupported, e.What, e.Version, e.Known)
}

func (e *VersionError) Unwrap() error { return ErrUnsupported }

func malformed(field, format string, args ...any) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Kind: ErrMalformed}
}

func tooLarge(field, format string, args ...any) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Kind: ErrTooLarge}
}
