package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/ledger"
)

func fill(t *testing.T, ctx context.Context, log ledger.Log, n int) (want []string) {
	t.Helper()
	var tails [3]uint64
	for i := range n {
		c := i % len(tails)
		want = append(want, fmt.Sprint("p", i))
		tails[c] = mustAppend(t, ctx, log, subject(c), tails[c], want[i])
	}
	return want
}

func testRead(t *testing.T, ctx context.Context, log ledger.Log) {
	for range log.Read(ctx, 1, false) {
		t.Error("an empty log has a record")
	}
	want := fill(t, ctx, log, 20)
	for _, from := range []uint64{0, 1, 2, 20, 21} {
		var got []ledger.Record
		for r, err := range log.Read(ctx, from, false) {
			if err != nil {
				t.Fatalf("read from %d: %v", from, err)
			}
			if r.Seq != max(from, 1)+uint64(len(got)) {
				t.Errorf("read from %d: record %d is at %d", from, len(got), r.Seq)
			}
			got = append(got, r)
			if len(got) == 1 { // later than the call: not part of this read
				mustAppend(t, ctx, log, subject(int(100+from)), 0, "later")
			}
		}
		st, err := log.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > 0 {
			st.Last-- // what was appended in the loop
		}
		want := want[min(max(from, 1)-1, 20):]
		if g := payloads(got); len(g) < len(want) || cmp.Diff(want, append([]string{}, g[:len(want)]...)) != "" {
			t.Errorf("read from %d: %q, want %q first", from, g, want)
		}
		if end := max(from, 1) + uint64(len(got)) - 1; end != st.Last && from <= st.Last {
			t.Errorf("read from %d ended at %d, want %d", from, end, st.Last)
		}
	}
}

func testReadPastEnd(t *testing.T, ctx context.Context, log ledger.Log) {
	fill(t, ctx, log, 3)
	for _, follow := range []bool{false, true} {
		n := 0
		for r, err := range log.Read(ctx, 5, follow) {
			n++
			if !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("read from 5 of 3, follow %v: record %d, %v; want corrupt", follow, r.Seq, err)
			}
		}
		if n != 1 {
			t.Errorf("read from 5 of 3, follow %v: %d results, want the error alone", follow, n)
		}
	}
}

func testReadBreak(t *testing.T, ctx context.Context, log ledger.Log) {
	fill(t, ctx, log, 10)
	for _, follow := range []bool{false, true} {
		n := 0
		for range log.Read(ctx, 1, follow) {
			if n++; n == 4 {
				break
			}
		}
		if n != 4 {
			t.Errorf("follow %v: %d records, want 4", follow, n)
		}
	}
}

func testFollow(t *testing.T, ctx context.Context, log ledger.Log) {
	want := fill(t, ctx, log, 5)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var got []ledger.Record
	var tail uint64
	for r, err := range log.Read(ctx, 3, true) {
		if err != nil {
			t.Fatalf("after %d records: %v", len(got), err)
		}
		got = append(got, r)
		switch { // each new record is the cause of the next
		case r.Seq >= 5 && r.Seq < 15:
			p := fmt.Sprint("new", r.Seq)
			tail = mustAppend(t, ctx, log, subject(50), tail, p)
			want = append(want, p)
		case r.Seq == 15:
			cancel()
		}
	}
	if d := cmp.Diff(want[2:], payloads(got)); d != "" {
		t.Errorf("followed (-want +got):\n%s", d)
	}
	for range log.Read(ctx, 1, true) {
		t.Error("a read under an ended context yields")
	}
}

func testFollowRace(t *testing.T, ctx context.Context, log ledger.Log) {
	const subjects, each = 8, 25
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, subjects)
	for s := range subjects {
		go func() {
			var tail uint64
			for i := range each {
				seq, err := log.Append(ctx, subject(s), tail, fmt.Append(nil, s, " ", i))
				if err != nil {
					done <- fmt.Errorf("append %d of %d: %w", i, s, err)
					return
				}
				tail = seq
			}
			done <- nil
		}()
	}
	next := uint64(1)
	for r, err := range log.Read(ctx, 1, true) {
		if err != nil {
			t.Errorf("follow at %d: %v", next, err)
			break
		}
		if r.Seq != next {
			t.Errorf("follow gave %d, want %d", r.Seq, next)
			break
		}
		if next++; next > subjects*each {
			break
		}
	}
	for range subjects {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
