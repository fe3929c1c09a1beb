package transcripts

import (
	"errors"

	"nexus/ledger/api"
)

// UsageError is a file or a format that can't be what the caller meant.
type UsageError struct{ error }

// Unwrap returns the cause.
func (u UsageError) Unwrap() error { return u.error }

// hinted is an error that knows what to do next.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// Hint returns what to do next.
func (h hinted) Hint() string { return h.hint }

func coded(err error, c api.Code) bool {
	var x *api.Error
	return errors.As(err, &x) && x.Code == c
}
