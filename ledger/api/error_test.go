package api

import (
	"errors"
	"fmt"
	"testing"

	"nexus/ledger"
	"nexus/turns"
)

// The pairs of the contract, which never change.
func TestCodes(t *testing.T) {
	for _, tc := range []struct {
		err    error
		code   Code
		status int
		exit   int
	}{
		{ledger.ErrMalformed, "malformed", 400, 2}, {ledger.ErrUnsupported, "unsupported", 400, 2}, {ledger.ErrDenied, "denied", 403, 8},
		{ledger.ErrNotFound, "not_found", 404, 4}, {ledger.ErrConflict, "conflict", 409, 3}, {ledger.ErrIDReused, "id_reused", 409, 3},
		{ledger.ErrClosed, "closed", 409, 3}, {ledger.ErrErased, "erased", 410, 4}, {ledger.ErrTooLarge, "too_large", 413, 2},
		{ledger.ErrUnprocessable, "unprocessable", 422, 9}, {ErrNothing, "nothing_to_compact", 422, 9}, {ledger.ErrBusy, "busy", 429, 5},
		{ledger.ErrUnavailable, "unavailable", 503, 5}, {ledger.ErrIndeterminate, "indeterminate", 504, 7}, {ledger.ErrCorrupt, "corrupt", 500, 6},
		{errors.New("something nobody thought of"), "internal", 500, 1},
	} {
		e := FromError(fmt.Errorf("while testing: %w", tc.err))
		if e.Code != tc.code || e.Status() != tc.status || Exit(e) != tc.exit {
			t.Errorf("%v: %s %d exit %d, want %s %d exit %d", tc.err, e.Code, e.Status(), Exit(e), tc.code, tc.status, tc.exit)
		}
	}
}

func TestADefectsTextStaysInside(t *testing.T) {
	if e := FromError(errors.New("secret of the daemon")); e.Message == "secret of the daemon" {
		t.Error("the text of a defect went to the caller")
	}
}

func TestFieldErrorsNameTheirField(t *testing.T) {
	e := FromError(fmt.Errorf("x: %w", &turns.FieldError{Field: "/a/b", Reason: "wrong", Kind: turns.ErrTooLarge}))
	if e.Code != TooLarge || e.Details["field"] != "/a/b" || e.Message != "/a/b: wrong" {
		t.Errorf("%+v", e)
	}
}
