package api

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
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

// Who fixes a request sees all its faults in one error, up to a bound.
func TestErrorListsEveryFault(t *testing.T) {
	faults := func(n int) (out []error) {
		for i := range n {
			out = append(out, FieldErrorf(fmt.Sprint("/f", i), "it is wrong"))
		}
		return out
	}
	e := FromError(fmt.Errorf("while testing: %w", errors.Join(faults(2)...)))
	if e.Code != Malformed || e.Message != "/f0: it is wrong; /f1: it is wrong" || e.Details["field"] != "/f0" {
		t.Errorf("%s %q, details %v", e.Code, e.Message, e.Details)
	}
	e = FromError(errors.Join(faults(maxFaults + 3)...))
	if !strings.HasSuffix(e.Message, "/f15: it is wrong; and 3 more") {
		t.Errorf("%q", e.Message)
	}
}

func TestFieldErrorsNameTheirField(t *testing.T) {
	e := FromError(fmt.Errorf("x: %w", &turns.FieldError{Field: "/a/b", Reason: "wrong", Kind: turns.ErrTooLarge}))
	if e.Code != TooLarge || e.Details["field"] != "/a/b" || e.Message != "/a/b: wrong" {
		t.Errorf("%+v", e)
	}
}

func TestPageLimit(t *testing.T) {
	for _, tc := range []struct {
		limit, want int
		ok          bool
	}{{0, 100, true}, {1, 1, true}, {1000, 1000, true}, {1001, 0, false}, {-1, 0, false}} {
		got, err := Page{Limit: tc.limit}.LimitOf(100, 1000)
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("limit %d: %d, %v; want %d", tc.limit, got, err, tc.want)
		}
		if e := FromError(err); err != nil && (e.Code != Malformed || e.Details["field"] != "/limit") {
			t.Errorf("limit %d: %+v", tc.limit, e)
		}
	}
}

func TestTimesAreReadAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{"2026-11-21T03:00:00Z", "2026-11-21T03:00:00.000000001Z", "1678-01-01T00:00:00Z"} {
		var v Time
		if err := v.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := v.MarshalText(); err != nil || string(b) != text {
			t.Errorf("%s is written as %s, %v", text, b, err)
		}
	}
	var v Time
	if err := v.UnmarshalText([]byte("yesterday")); !errors.Is(err, turns.ErrMalformed) {
		t.Errorf("yesterday is read: %v", err)
	}
	for text, ok := range map[string]bool{"1970-01-01T00:00:00Z": false, "1600-01-01T00:00:00Z": false, "2500-01-01T00:00:00Z": false, "2026-11-21T03:00:00Z": true} {
		if err := v.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if ns, got := v.UnixNano(); got != ok || (ok && UnixTime(ns) != v) {
			t.Errorf("%s can be stored: %v, want %v", text, got, ok)
		}
	}
}

func TestShortFormsOfPolicyAndSystem(t *testing.T) {
	var r CreateSession
	if err := turns.DecodeJSON([]byte(`{"policy":"balanced","system":"terse"}`), &r); err != nil {
		t.Fatal(err)
	}
	if r.Policy.Name != "balanced" || len(*r.System) != 1 || (*r.System)[0] != (turns.Section{Content: "terse"}) {
		t.Errorf("%+v %+v", r.Policy, r.System)
	}
	if err := turns.DecodeJSON([]byte(`{"policy":{"name":"balanced","sett":{}}}`), &r); !errors.Is(err, turns.ErrMalformed) {
		t.Errorf("an unknown member of a policy: %v", err)
	}
}

// A disk that fails is no defect of the daemon, and the error names no path of it.
func TestAFailedDiskIsUnavailable(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS} {
		e := FromError(fmt.Errorf("read the projections: %w", &fs.PathError{Op: "read", Path: "/secret/place", Err: errno}))
		if e.Code != Unavailable || strings.Contains(e.Message, "place") {
			t.Errorf("%v: %+v, want unavailable without the path", errno, e)
		}
	}
	if e := FromError(&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}); e.Code != Internal {
		t.Errorf("a file that is missing: %+v, want internal", e)
	}
}
