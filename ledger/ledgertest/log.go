package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/ledger"
	"nexus/turns"
)

// subject is the subject of chain n of tenant t.
func subject(n int) string {
	return ledger.Subject("t", fmt.Sprint(n), turns.Chain{Entity: "s", ID: fmt.Sprintf("CHAIN%d", n)})
}

// TestLog runs the conformance suite. open gives an empty log, fresh at each
// call, and cleans up after the test it is given. Tests do not run in parallel.
func TestLog(t *testing.T, open func(t *testing.T) ledger.Log) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, context.Context, ledger.Log)
	}{
		{"the first append expects an empty subject", testFirst},
		{"an append expects the tail", testExpect},
		{"subjects are independent", testIndependent},
		{"a repeat of a stored append is resolved", testRepeat},
		{"a malformed subject is refused", testMalformed},
		{"a payload over the limit is refused", testTooLarge},
		{"the payload given stays the caller's", testOwnership},
		{"last, next and get", testLookups},
		{"last takes wildcards", testWildcards},
		{"the state", testState},
		{"read ends at the last record", testRead},
		{"read from past the end", testReadPastEnd},
		{"read can be left", testReadBreak},
		{"read follows", testFollow},
		{"read follows without a gap under appends", testFollowRace},
		{"racing appends on one subject", testRaceOne},
		{"racing appends on many subjects", testRaceMany},
		{"racing repeats of one append", testRaceSame},
		{"an ended context", testEnded},
		{"no answer, and a retry", testFlaky},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := open(t)
			ctx := Within(t)
			c.run(t, ctx, log)
			CheckLog(t, log)
		})
	}
}

// mustAppend appends where a conflict or a failure ends the test.
func mustAppend(t testing.TB, ctx context.Context, log ledger.Log, subject string, expect uint64, payload string) uint64 {
	t.Helper()
	seq, err := log.Append(ctx, subject, expect, []byte(payload))
	if err != nil {
		t.Fatalf("append %q to %s after %d: %v", clip(payload), subject, expect, err)
	}
	return seq
}

func clip(s string) string { return s[:min(len(s), 40)] }

// wantConflict checks err against the conflict of appending to subject.
func wantConflict(t testing.TB, err error, subject string, want, got uint64) {
	t.Helper()
	var c *ledger.ConflictError
	if !errors.As(err, &c) {
		t.Fatalf("got error %v, want a conflict", err)
	}
	if d := cmp.Diff(&ledger.ConflictError{Subject: subject, Want: want, Got: got}, c); d != "" {
		t.Errorf("conflict (-want +got):\n%s", d)
	}
	if !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("%v is not ErrConflict", err)
	}
}

func payloads(rs []ledger.Record) []string {
	var ps []string
	for _, r := range rs {
		ps = append(ps, string(r.Payload))
	}
	return ps
}

func testFirst(t *testing.T, ctx context.Context, log ledger.Log) {
	if seq := mustAppend(t, ctx, log, subject(1), 0, "a"); seq != 1 {
		t.Errorf("first position %d, want 1", seq)
	}
	_, err := log.Append(ctx, subject(1), 0, []byte("b"))
	wantConflict(t, err, subject(1), 0, 1)
	_, err = log.Append(ctx, subject(2), 7, []byte("b"))
	wantConflict(t, err, subject(2), 7, 0)
}

func testExpect(t *testing.T, ctx context.Context, log ledger.Log) {
	s := subject(1)
	a := mustAppend(t, ctx, log, s, 0, "a")
	mustAppend(t, ctx, log, subject(2), 0, "x")
	b := mustAppend(t, ctx, log, s, a, "b")
	_, err := log.Append(ctx, s, a, []byte("c"))
	wantConflict(t, err, s, a, b)
	_, err = log.Append(ctx, s, b+1, []byte("c")) // beyond the tail: nothing follows
	wantConflict(t, err, s, b+1, 0)
	c := mustAppend(t, ctx, log, s, b, "c")
	_, err = log.Append(ctx, s, a, []byte("d"))
	wantConflict(t, err, s, a, b) // the record that follows, not the tail
	if got := []uint64{a, b, c}; !slices.Equal(got, []uint64{1, 3, 4}) {
		t.Errorf("positions %v, want [1 3 4]", got)
	}
}

func testIndependent(t *testing.T, ctx context.Context, log ledger.Log) {
	tails := make([]uint64, 5)
	for round := range 4 {
		for i := range tails {
			tails[i] = mustAppend(t, ctx, log, subject(i), tails[i], fmt.Sprint(i, round))
		}
	}
	if d := cmp.Diff([]uint64{16, 17, 18, 19, 20}, tails); d != "" {
		t.Errorf("tails (-want +got):\n%s", d)
	}
}

func testRepeat(t *testing.T, ctx context.Context, log ledger.Log) {
	s := subject(1)
	a := mustAppend(t, ctx, log, s, 0, "a")
	if again := mustAppend(t, ctx, log, s, 0, "a"); again != a {
		t.Errorf("repeat at %d, want %d", again, a)
	}
	b := mustAppend(t, ctx, log, s, a, "a") // equal bytes after another tail: another record
	if b == a {
		t.Error("equal bytes under another expectation were not stored")
	}
	mustAppend(t, ctx, log, s, b, "c")
	if again := mustAppend(t, ctx, log, s, 0, "a"); again != a {
		t.Errorf("late repeat at %d, want %d", again, a)
	}
	_, err := log.Append(ctx, s, a, []byte("c")) // stored, but not after a
	wantConflict(t, err, s, a, b)
}

func testMalformed(t *testing.T, ctx context.Context, log ledger.Log) {
	for _, s := range []string{"", "nexus", "nexus.log.00.t.s", "other.log.00.t.s.X", "agents.00.t.s.X", "nexus.v1.00.t.s.X", "nexus.log.00.t.s.*", "nexus.log.00.t.s.>", "nexus.log.00.t.s.A B", "nexus.log.*.t.s.A"} {
		if _, err := log.Append(ctx, s, 0, []byte("a")); !errors.Is(err, ledger.ErrMalformed) {
			t.Errorf("append to %q: %v, want malformed", s, err)
		}
	}
}

func testTooLarge(t *testing.T, ctx context.Context, log ledger.Log) {
	big := bytes.Repeat([]byte{'x'}, 64<<20)
	if _, err := log.Append(ctx, subject(1), 0, big); !errors.Is(err, ledger.ErrTooLarge) {
		t.Errorf("append of 64 MiB: %v, want too large", err)
	}
	half := big[:512<<10]
	seq, err := log.Append(ctx, subject(1), 0, half)
	if err != nil {
		t.Fatalf("append of 512 KiB: %v", err)
	}
	if r, err := log.Get(ctx, seq); err != nil || !bytes.Equal(r.Payload, half) {
		t.Errorf("512 KiB came back as %d bytes, %v", len(r.Payload), err)
	}
}

func testOwnership(t *testing.T, ctx context.Context, log ledger.Log) {
	p := []byte("abc")
	seq, err := log.Append(ctx, subject(1), 0, p)
	if err != nil {
		t.Fatal(err)
	}
	copy(p, "xyz")
	get := func() ledger.Record {
		r, err := log.Get(ctx, seq)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := get()
	if string(r.Payload) != "abc" {
		t.Errorf("stored %q, want abc", r.Payload)
	}
	copy(r.Payload, "xyz")
	for r := range log.Read(ctx, 1, false) {
		copy(r.Payload, "xyz")
	}
	if r := get(); string(r.Payload) != "abc" {
		t.Errorf("a reader's change reached the log: %q", r.Payload)
	}
}

func testLookups(t *testing.T, ctx context.Context, log ledger.Log) {
	s, o := subject(1), subject(2)
	notFound := func(_ ledger.Record, err error) {
		t.Helper()
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("got %v, want not found", err)
		}
	}
	notFound(log.Last(ctx, s))
	notFound(next(ctx, log, s, 0))
	notFound(log.Get(ctx, 1))
	a := mustAppend(t, ctx, log, s, 0, "a")
	x := mustAppend(t, ctx, log, o, 0, "x")
	b := mustAppend(t, ctx, log, s, a, "b")
	found := func(r ledger.Record, err error) func(uint64, string, string) {
		return func(seq uint64, subject, payload string) {
			t.Helper()
			if err != nil {
				t.Errorf("want %d: %v", seq, err)
			}
			want := ledger.Record{Seq: seq, Subject: subject, Payload: []byte(payload), Hash: turns.HashEvent([]byte(payload)), Stored: r.Stored, Hashed: r.Hashed}
			if d := cmp.Diff(want, r); d != "" {
				t.Errorf("record (-want +got):\n%s", d)
			}
		}
	}
	found(log.Last(ctx, s))(b, s, "b")
	found(log.Last(ctx, o))(x, o, "x")
	found(next(ctx, log, s, 0))(a, s, "a")
	found(next(ctx, log, s, a))(b, s, "b")
	found(next(ctx, log, s, x))(b, s, "b")
	found(log.Get(ctx, x))(x, o, "x")
	notFound(next(ctx, log, s, b))
	notFound(next(ctx, log, o, x))
	notFound(next(ctx, log, subject(3), 0))
	notFound(log.Get(ctx, b+1))
	notFound(log.Get(ctx, 0))
}

func testWildcards(t *testing.T, ctx context.Context, log ledger.Log) {
	c := turns.Chain{Entity: "s", ID: "FORK"}
	deep := ledger.Subject("t", "another root", c)
	mustAppend(t, ctx, log, deep, 0, "fork")
	mustAppend(t, ctx, log, ledger.Subject("u", "another root", c), 0, "of another tenant")
	mustAppend(t, ctx, log, subject(1), 0, "of another chain")
	r, err := log.Last(ctx, ledger.AnyShard("t", c))
	if err != nil || r.Subject != deep || string(r.Payload) != "fork" {
		t.Errorf("Last of any shard: %s %q, %v", r.Subject, r.Payload, err)
	}
	if r, err := log.Last(ctx, "nexus.log.*.t.s.*"); err != nil || r.Seq != 3 {
		t.Errorf("Last of any session of t: %d, %v, want 3", r.Seq, err)
	}
	if _, err := log.Last(ctx, ledger.AnyShard("v", c)); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("Last of a tenant without chains: %v, want not found", err)
	}
}

func testState(t *testing.T, ctx context.Context, log ledger.Log) {
	st, err := log.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if st.Identity == "" || st.Created.IsZero() || st.Last != 0 || st.Count != 0 || st.Sound() != nil {
		t.Errorf("state of an empty log: %+v", st)
	}
	var tail uint64
	for i := range 3 {
		tail = mustAppend(t, ctx, log, subject(1), tail, fmt.Sprint(i))
	}
	want := ledger.State{Identity: st.Identity, Created: st.Created, First: 1, Last: 3, Count: 3}
	got, err := log.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
}

func testEnded(t *testing.T, ctx context.Context, log ledger.Log) {
	mustAppend(t, ctx, log, subject(1), 0, "a")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := log.Append(ended, subject(1), 1, []byte("b"))
	if !errors.Is(err, ledger.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v, want unavailable and canceled", err)
	}
	for _, look := range []func() error{
		func() error { _, err := log.Get(ended, 1); return err },
		func() error { _, err := log.Last(ended, subject(1)); return err },
		func() error { _, err := next(ended, log, subject(1), 0); return err },
		func() error { _, err := log.State(ended); return err },
	} {
		if err := look(); !errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("a look under an ended context: %v, want unavailable", err)
		}
	}
}
