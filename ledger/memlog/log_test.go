package memlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nexus/ledger"
	"nexus/ledger/ledgertest"
	"nexus/ledger/memlog"
	"nexus/turns"
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

// The limits are of the last byte.
func TestALimitIsTheLargestSizeThatIsStored(t *testing.T) {
	ctx := context.Background()
	log, blobs := memlog.New(memlog.Config{MaxPayload: 4}), memlog.Blobs{MaxBlob: 4}
	for size, want := range map[int]error{0: nil, 4: nil, 5: ledger.ErrTooLarge} {
		p := make([]byte, size)
		subject := ledger.Subject("t", fmt.Sprint(size), turns.Chain{Entity: "s", ID: fmt.Sprint("A", size)})
		if _, err := log.Append(ctx, subject, 0, p); !errors.Is(err, want) {
			t.Errorf("append of %d bytes: %v, want %v", size, err, want)
		}
		if err := blobs.PutBlob(ctx, "t", turns.Hash{byte(size)}, p); !errors.Is(err, want) {
			t.Errorf("put of %d bytes: %v, want %v", size, err, want)
		}
	}
}

func TestTheZeroConfigHasAnIdentityAndAClock(t *testing.T) {
	a, err := memlog.New(memlog.Config{}).State(context.Background())
	b, err2 := memlog.New(memlog.Config{}).State(context.Background())
	if err != nil || err2 != nil || a.Identity == b.Identity || a.Identity == "" || a.Created.IsZero() {
		t.Errorf("%+v and %+v, %v, %v", a, b, err, err2)
	}
	at := time.Unix(7, 0)
	c, err := memlog.New(memlog.Config{Identity: "I", Now: func() time.Time { return at }}).State(context.Background())
	if err != nil || c.Identity != "I" || !c.Created.Equal(at) {
		t.Errorf("%+v, %v", c, err)
	}
}
