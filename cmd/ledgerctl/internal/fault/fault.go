package fault

import (
	"errors"

	"nexus/cmd/internal/transcripts/transcriptfile"
)

// verbsHint is what to type after a verb that there is not.
const verbsHint = "ledgerctl help lists the verbs, ledgerctl help VERB one with an example"

// UsageError is a command that was typed wrong.
type UsageError struct{ error }

func (u UsageError) Unwrap() error { return u.error }

// Usage returns err as that of a command that was typed wrong.
func Usage(err error) error { return UsageError{err} }

// IsUsage reports whether a command was typed wrong.
func IsUsage(err error) bool {
	return errors.As(err, &UsageError{}) || errors.As(err, &transcriptfile.UsageError{})
}

// hinted is an error that knows what to type next.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// WithHint returns err with what to type next.
func WithHint(err error, hint string) error { return hinted{err, hint} }

// HintIn returns the hint that WithHint put into err; "" for an error without one.
func HintIn(err error) string {
	var h hinted
	errors.As(err, &h)
	return h.hint
}

// ExitError ends the command with a status, after it has said everything.
type ExitError struct{ Status int }

func (x ExitError) Error() string { return "a check failed" }

// Exit returns the error that ends a command with a status, and says nothing.
func Exit(status int) error { return ExitError{status} }

// ErrBothForms is the error of a picture that is asked for as JSON too.
var ErrBothForms = errors.New("--svg prints a picture; leave --json and --format out")
