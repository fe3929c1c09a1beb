package ledgertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/ledger"
	"nexus/turns"
)

// Within is a context that ends shortly before the test binary's -timeout, so
// that a test which hangs still says where. No step has a time of its own: an
// election, or a machine that is busy with other tests, takes as long as it takes.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := d.Deadline(); ok {
			ctx, cancel = context.WithDeadline(context.Background(), end.Add(-5*time.Second))
		}
	}
	t.Cleanup(cancel)
	return ctx
}

// CheckLog reads the whole log and checks what must always hold: the state is
// sound, positions are contiguous from 1, each hash is the hash of its payload,
// and Get, Chain and Last agree with the order of Read. It gives the records.
func CheckLog(t testing.TB, log ledger.Log) []ledger.Record {
	t.Helper()
	ctx := Within(t)
	st, err := log.State(ctx)
	if err != nil {
		t.Fatalf("check: state: %v", err)
	}
	if err := st.Sound(); err != nil {
		t.Errorf("check: %v", err)
	}
	var all []ledger.Record
	chains := map[string][]ledger.Record{}
	for r, err := range log.Read(ctx, 1, false) {
		if err != nil {
			t.Fatalf("check: read after %d records: %v", len(all), err)
		}
		if err := checkRecord(ctx, log, r, uint64(len(all))+1); err != nil {
			t.Errorf("check: %v", err)
		}
		chains[r.Subject] = append(chains[r.Subject], r)
		all = append(all, r)
	}
	if got := uint64(len(all)); got != st.Last {
		t.Errorf("check: read %d records, the state says %d", got, st.Last)
	}
	for subject, want := range chains {
		seq := want[len(want)-1].Seq
		if r, err := log.Last(ctx, subject); err != nil || r.Seq != seq {
			t.Errorf("check: Last(%s) = %d, %v, want %d", subject, r.Seq, err, seq)
		}
		var got []ledger.Record
		for r, err := range log.Chain(ctx, subject, 0) {
			if err != nil {
				t.Fatalf("check: chain %s after %d records: %v", subject, len(got), err)
			}
			got = append(got, r)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("check: chain %s differs from the records of Read (-read +chain):\n%s", subject, d)
		}
	}
	return all
}

func checkRecord(ctx context.Context, log ledger.Log, r ledger.Record, seq uint64) error {
	if r.Seq != seq {
		return fmt.Errorf("record at %d where %d is due", r.Seq, seq)
	}
	if h := turns.HashEvent(r.Payload); r.Hash != h {
		return fmt.Errorf("record %d carries %v, its payload hashes to %v", r.Seq, r.Hash, h)
	}
	if r.Stored.IsZero() {
		return fmt.Errorf("record %d has no stored time", r.Seq)
	}
	got, err := log.Get(ctx, seq)
	if err != nil {
		return fmt.Errorf("get %d: %w", seq, err)
	}
	if d := cmp.Diff(r, got); d != "" {
		return fmt.Errorf("record from Read and Get differs at %d (-read +get):\n%s", seq, d)
	}
	return nil
}

// next returns the first record of a chain after a position; [ledger.ErrNotFound]: none.
func next(ctx context.Context, log ledger.Log, subject string, after uint64) (ledger.Record, error) {
	for r, err := range log.Chain(ctx, subject, after) {
		return r, err
	}
	return ledger.Record{}, ledger.ErrNotFound
}
