package wire

import (
	"testing"
	"time"

	"nexus/ledger/api"
)

// What the caller can mend is no error of the server, and only what a later try may change says
// when to try again.
func TestRefusalsOfTheLedger(t *testing.T) {
	const second = time.Second
	for _, tc := range []struct {
		code   api.Code
		status int
		kind   string
		param  string
		after  time.Duration
		final  bool
	}{
		{api.Malformed, 400, InvalidRequest, "input", 0, false},
		{api.Unsupported, 400, InvalidRequest, "input", 0, false},
		{api.Unprocessable, 400, InvalidRequest, "input", 0, false},
		{api.TooLarge, 413, InvalidRequest, "input", 0, false},
		{api.Denied, 403, InvalidRequest, "", 0, false},
		{api.NotFound, 404, NotFoundType, "", 0, false},
		{api.Erased, 410, NotFoundType, "", 0, false},
		{api.Conflict, 409, InvalidRequest, "", 0, true},
		{api.Closed, 409, InvalidRequest, "", 0, true},
		{api.IDReused, 409, InvalidRequest, "", 0, true},
		{api.Nothing, 422, InvalidRequest, "", 0, false},
		{api.Busy, 429, TooMany, "", second, false},
		{api.Unavailable, 503, ServerError, "", second, false},
		{api.Indeterminate, 503, ServerError, "", second, false},
		{api.Corrupt, 500, ServerError, "", 0, false},
		{api.Internal, 500, ServerError, "", 0, false},
		{"of_a_later_build", 500, ServerError, "", 0, false},
	} {
		e := AsError(&api.Error{Code: tc.code, Message: "because"})
		if e.Status != tc.status || e.Type != tc.kind || e.Param != tc.param || e.RetryAfter != tc.after || e.Final != tc.final {
			t.Errorf("%s: %+v, want %+v", tc.code, e, tc)
		}
		if e.Code != string(tc.code) || e.Message != "because" {
			t.Errorf("%s: code %q, message %q", tc.code, e.Code, e.Message)
		}
	}
}

// A session that was reset goes on in its successor, which the refusal names.
func TestARefusalNamesTheSuccessor(t *testing.T) {
	b := AsError(api.Errorf(api.Closed, map[string]any{"successor": "01JE"}, "reset")).Body()
	if b.Details == nil || b.Details.Successor != "01JE" {
		t.Errorf("%+v", b)
	}
	if b := AsError(api.Errorf(api.Conflict, map[string]any{"head": "01JE"}, "moved")).Body(); b.Details != nil {
		t.Errorf("%+v", b)
	}
}
