package steps

import "errors"

// ErrNoParent: the session that a transcript was forked from is not in the ledger.
var ErrNoParent = errors.New("the session that it was forked from is not in the ledger")

// ErrGrown: an export of ours holds what is not in the ledger.
var ErrGrown = errors.New("an export of this ledger, with more in it")

// ErrSuperseded: the session that took the steps has a successor since.
var ErrSuperseded = errors.New("another import has read the transcript anew meanwhile")

// hinted is an error that knows what to do next.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// Hint returns what to do next.
func (h hinted) Hint() string { return h.hint }
