package ledgertest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"nexus/ledger"
)

// testFlaky retries as a caller does after an indeterminate append.
func testFlaky(t *testing.T, ctx context.Context, log ledger.Log) {
	for i, fault := range []Fault{Persisted, Lost, Late} {
		s := subject(i)
		var f Faults
		flaky := Flaky(log, &f)
		f.Script(fault)
		if _, err := flaky.Append(ctx, s, 0, []byte("a")); !errors.Is(err, ledger.ErrIndeterminate) {
			t.Fatalf("%v: %v, want indeterminate", fault, err)
		}
		first := mustAppend(t, ctx, flaky, s, 0, "a")
		for _, err := range f.Deliver(ctx) {
			if err != nil { // the contract holds for the late one too: it was stored
				t.Errorf("%v: the late try: %v", fault, err)
			}
		}
		if r, err := log.Last(ctx, s); err != nil || r.Seq != first {
			t.Errorf("%v: the tail is %d, %v; want %d", fault, r.Seq, err, first)
		}
		// Another writer comes between the lost try and the retry.
		f.Script(Lost)
		if _, err := flaky.Append(ctx, s, first, []byte("b")); !errors.Is(err, ledger.ErrIndeterminate) {
			t.Fatalf("%v: %v, want indeterminate", fault, err)
		}
		other := mustAppend(t, ctx, log, s, first, "of another")
		_, err := flaky.Append(ctx, s, first, []byte("b"))
		wantConflict(t, err, s, first, other)
	}
}

// TestFaults runs the suite of a log that resolves ambiguous answers itself.
// open gives an empty log that passes every try of a publish through f by
// [Inject], and makes at most tries of them an append.
func TestFaults(t *testing.T, tries int, open func(t *testing.T, f *Faults) ledger.Log) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, context.Context, ledger.Log, *Faults, int)
	}{
		{"resolved inside the append", testResolved},
		{"no try is answered, one persisted", testAllPersisted},
		{"no try is answered, none arrives", testAllLost},
		{"no try is answered, all land later", testAllLate},
		{"a late try meets another's record", testLateConflict},
		{"an unanswered try met another's record", testPersistedConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := new(Faults)
			log := open(t, f)
			ctx := Within(t)
			c.run(t, ctx, log, f, tries)
			f.Script()
			CheckLog(t, log)
		})
	}
}

// wantOnce checks that s holds payload once, after after, and gives its position.
func wantOnce(t *testing.T, ctx context.Context, log ledger.Log, s string, after uint64, payload string) uint64 {
	t.Helper()
	r, err := next(ctx, log, s, after)
	if err != nil || string(r.Payload) != payload {
		t.Fatalf("after %d: %q, %v; want %q", after, r.Payload, err, payload)
	}
	if again, err := next(ctx, log, s, r.Seq); !errors.Is(err, ledger.ErrNotFound) {
		t.Fatalf("%q is at %d, and %q follows at %d (%v)", payload, r.Seq, again.Payload, again.Seq, err)
	}
	return r.Seq
}

func testResolved(t *testing.T, ctx context.Context, log ledger.Log, f *Faults, _ int) {
	s := subject(1)
	var tail uint64
	for i, script := range [][]Fault{{Persisted}, {Lost}, {Late}, {Lost, Persisted}, {Late, Persisted}, {Late, Lost}} {
		p := string(rune('a' + i))
		f.Script(script...)
		seq := mustAppend(t, ctx, log, s, tail, p)
		late := f.Deliver(ctx)
		if want := slices.Contains(script, Late); want != (len(late) == 1) {
			t.Fatalf("%v: %d late tries", script, len(late))
		}
		for _, err := range late {
			if err == nil {
				t.Errorf("%v: the store took a late try after the append was stored", script)
			}
		}
		if got := wantOnce(t, ctx, log, s, tail, p); got != seq {
			t.Errorf("%v: append said %d, it is at %d", script, seq, got)
		}
		if again := mustAppend(t, ctx, log, s, tail, p); again != seq {
			t.Errorf("%v: repeat at %d, want %d", script, again, seq)
		}
		tail = seq
	}
}

func all(f Fault, n int) []Fault { return slices.Repeat([]Fault{f}, n) }

func testAllPersisted(t *testing.T, ctx context.Context, log ledger.Log, f *Faults, tries int) {
	f.Script(all(Persisted, tries)...)
	seq := mustAppend(t, ctx, log, subject(1), 0, "a")
	if f.Tries() != 1 {
		t.Errorf("%d tries; the first was stored, and a look shows it", f.Tries())
	}
	if got := wantOnce(t, ctx, log, subject(1), 0, "a"); got != seq {
		t.Errorf("append said %d, it is at %d", seq, got)
	}
}

func testAllLost(t *testing.T, ctx context.Context, log ledger.Log, f *Faults, tries int) {
	f.Script(all(Lost, tries)...)
	if _, err := log.Append(ctx, subject(1), 0, []byte("a")); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Fatalf("%v, want indeterminate: a publish without an answer may land", err)
	}
	if f.Tries() != tries {
		t.Errorf("%d tries, want %d", f.Tries(), tries)
	}
	mustAppend(t, ctx, log, subject(1), 0, "a")
	wantOnce(t, ctx, log, subject(1), 0, "a")
}

func testAllLate(t *testing.T, ctx context.Context, log ledger.Log, f *Faults, tries int) {
	f.Script(all(Late, tries)...)
	if _, err := log.Append(ctx, subject(1), 0, []byte("a")); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Fatalf("%v, want indeterminate", err)
	}
	landed := 0
	for _, err := range f.Deliver(ctx) {
		if err == nil {
			landed++
		}
	}
	if landed != 1 {
		t.Errorf("%d of the late tries were stored, want 1", landed)
	}
	seq := wantOnce(t, ctx, log, subject(1), 0, "a")
	if again := mustAppend(t, ctx, log, subject(1), 0, "a"); again != seq {
		t.Errorf("retry at %d, want %d", again, seq)
	}
}

func testLateConflict(t *testing.T, ctx context.Context, log ledger.Log, f *Faults, tries int) {
	s := subject(1)
	f.Script(all(Late, tries)...)
	if _, err := log.Append(ctx, s, 0, []byte("a")); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Fatalf("%v, want indeterminate", err)
	}
	other := mustAppend(t, ctx, log, s, 0, "of another")
	for _, err := range f.Deliver(ctx) {
		if err == nil {
			t.Error("a late try was stored though its expectation has passed")
		}
	}
	_, err := log.Append(ctx, s, 0, []byte("a"))
	wantConflict(t, err, s, 0, other)
	wantOnce(t, ctx, log, s, 0, "of another")
}

func testPersistedConflict(t *testing.T, ctx context.Context, log ledger.Log, f *Faults, _ int) {
	s := subject(1)
	other := mustAppend(t, ctx, log, s, 0, "of another")
	f.Script(Persisted) // it reached the store, was refused, and the refusal was lost
	_, err := log.Append(ctx, s, 0, []byte("a"))
	wantConflict(t, err, s, 0, other)
}
