package memlog_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"nexus/ledger"
	"nexus/ledger/ledgertest"
	"nexus/ledger/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemlogIsALog(t *testing.T) {
	ledgertest.TestLog(t, func(*testing.T) ledger.Log { return memlog.New(memlog.Config{}) })
}

func TestMemlogKeepsBlobs(t *testing.T) {
	ledgertest.TestBlobs(t, func(*testing.T) ledger.Blobs { return new(memlog.Blobs) })
}

func TestTruncateForgetsTheTail(t *testing.T) {
	ctx := context.Background()
	log := memlog.New(memlog.Config{})
	s := "nexus.log.00.t.s.A"
	var tail uint64
	for _, p := range []string{"a", "b", "c"} {
		var err error
		if tail, err = log.Append(ctx, s, tail, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	log.Truncate(1)
	if n := len(ledgertest.CheckLog(t, log)); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
	for _, err := range log.Read(ctx, tail+1, true) {
		if !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("a reader past the lost tail: %v, want corrupt", err)
		}
	}
	if seq, err := log.Append(ctx, s, 1, []byte("d")); seq != 2 || err != nil {
		t.Errorf("append after the loss: %d, %v; want 2", seq, err)
	}
}
