package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"nexus/ledger"
	"nexus/turns"
)

// Code is the word of an error in the contract. The list is append-only.
type Code string

// The codes.
const (
	Malformed     Code = "malformed"
	Unsupported   Code = "unsupported"
	Denied        Code = "denied"
	NotFound      Code = "not_found"
	Conflict      Code = "conflict"
	IDReused      Code = "id_reused"
	Closed        Code = "closed"
	Erased        Code = "erased"
	TooLarge      Code = "too_large"
	Unprocessable Code = "unprocessable"
	Nothing       Code = "nothing_to_compact"
	Busy          Code = "busy"
	Unavailable   Code = "unavailable"
	Indeterminate Code = "indeterminate"
	Corrupt       Code = "corrupt"
	Internal      Code = "internal"
)

// ErrNothing: understood, and nothing legal to compact.
var ErrNothing = errors.New("nothing to compact")

// ErrInternal: a defect of the daemon.
var ErrInternal = errors.New("internal")

// codes pins code, sentinel, status and exit code; the first match of
// errors.Is decides, so an error that wraps two is the more specific one.
var codes = []struct {
	code     Code
	sentinel error
	status   int
	exit     int
}{
	{Erased, ledger.ErrErased, 410, 4},
	{Unsupported, ledger.ErrUnsupported, 400, 2},
	{TooLarge, ledger.ErrTooLarge, 413, 2},
	{Malformed, ledger.ErrMalformed, 400, 2},
	{Denied, ledger.ErrDenied, 403, 8},
	{IDReused, ledger.ErrIDReused, 409, 3},
	{Closed, ledger.ErrClosed, 409, 3},
	{Conflict, ledger.ErrConflict, 409, 3},
	{NotFound, ledger.ErrNotFound, 404, 4},
	{Nothing, ErrNothing, 422, 9},
	{Unprocessable, ledger.ErrUnprocessable, 422, 9},
	{Busy, ledger.ErrBusy, 429, 5},
	{Indeterminate, ledger.ErrIndeterminate, 504, 7},
	{Unavailable, ledger.ErrUnavailable, 503, 5},
	{Corrupt, ledger.ErrCorrupt, 500, 6},
	{Internal, ErrInternal, 500, 1},
}

// Error is an error as it goes over the wire. Unwrap gives the sentinel of its
// code, so errors.Is works on both sides alike.
type Error struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`

	// Of the client, not of the wire.

	FromDaemon bool  `json:"-"` // the daemon said it
	Oversize   int64 `json:"-"` // bytes of a request that was not sent, since it is larger than a message
}

// Answered reports whether a daemon sent e in a reply: then it runs, and is reached.
func (e *Error) Answered() bool { return e.FromDaemon }

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Unwrap gives the code's sentinel; nil for a code this build does not know.
func (e *Error) Unwrap() error {
	for _, c := range codes {
		if c.code == e.Code {
			return c.sentinel
		}
	}
	return nil
}

// HasCode reports whether err is an answer with a code.
func HasCode(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}

// Status is the HTTP-like status of the code.
func (e *Error) Status() int {
	for _, c := range codes {
		if c.code == e.Code {
			return c.status
		}
	}
	return 500
}

// Exit is the exit code of a command that ends with err.
func Exit(err error) int {
	if err == nil {
		return 0
	}
	for _, c := range codes {
		if errors.Is(err, c.sentinel) {
			return c.exit
		}
	}
	return 1
}

// diskErrors are the errors of a disk that fails or is full.
var diskErrors = []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS}

// FromError is err as it goes over the wire. What matches no sentinel is a
// defect: its text goes to the log, not to the caller. That of a disk that fails is
// unavailable, without its paths. The message lists the faults of a request, and
// details.field is the pointer of the first. details.min_version is the version that is needed, where a later build may
// have it.
func FromError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	out := &Error{Code: Internal, Message: "internal error"}
	for _, c := range codes {
		if errors.Is(err, c.sentinel) {
			out = &Error{Code: c.code, Message: err.Error()}
			break
		}
	}
	if errno := syscall.Errno(0); out.Code == Internal && errors.As(err, &errno) && slices.Contains(diskErrors, errno) {
		out = &Error{Code: Unavailable, Message: fmt.Sprintf("the daemon's disk fails: %v", errno)}
	}
	faults := fieldErrors(err)
	var b strings.Builder
	for i, f := range faults {
		if i > 0 {
			b.WriteString("; ")
		}
		if i == maxFaults {
			fmt.Fprintf(&b, "and %d more", len(faults)-i)
			break
		}
		if f.Field != "" {
			b.WriteString(f.Field + ": ")
		}
		b.WriteString(f.Reason)
	}
	if len(faults) > 0 {
		out.Message = b.String()
		if first := faults[0]; first.Field != "" {
			out.Details = map[string]any{"field": first.Field}
		}
	}
	if later := (*turns.VersionError)(nil); out.Code == Unsupported && errors.As(err, &later) {
		if out.Details == nil {
			out.Details = make(map[string]any, 1)
		}
		out.Details["min_version"] = later.Version
	}
	return out
}

// maxFaults bounds the faults that a message lists.
const maxFaults = 16

// fieldErrors returns the faults in the tree of err, in order.
func fieldErrors(err error) []*turns.FieldError {
	switch e := err.(type) {
	case *turns.FieldError:
		return []*turns.FieldError{e}
	case interface{ Unwrap() error }:
		return fieldErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		var out []*turns.FieldError
		for _, one := range e.Unwrap() {
			out = append(out, fieldErrors(one)...)
		}
		return out
	}
	return nil
}

// InternalError is the error of a defect of the daemon: its text names id, which the
// line of the daemon's log with the reason has too. effect says what became of the
// request; it may be empty.
func InternalError(id turns.ID, effect string) *Error {
	if effect != "" {
		effect = ": " + effect
	}
	return Errorf(Internal, map[string]any{"id": id.String()}, "internal error%s; the daemon's log has the reason under the id %s", effect, id)
}

// Errorf makes an error of a code; pairs are details.
func Errorf(code Code, details map[string]any, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Details: details}
}

// FieldErrorf is a malformed member of a request, field its JSON pointer.
func FieldErrorf(field, format string, args ...any) error {
	return &turns.FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Kind: turns.ErrMalformed}
}

// UnmarshalLenient reads a reply: members this build does not know are ignored.
func UnmarshalLenient(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return Errorf(Internal, nil, "the reply can't be read: %v", err)
	}
	return nil
}
