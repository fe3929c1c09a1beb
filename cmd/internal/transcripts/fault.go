package transcripts

import (
	"errors"

	"nexus/ledger/api"
)

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
