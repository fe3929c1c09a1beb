package jetstream

import (
	"context"
	"errors"
	"testing"

	"nexus/ledger"
	"nexus/ledger/jetstream/mark"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

var errPaused = errors.Join(ledger.ErrUnavailable, errors.New("the disk failed"))

// While a log is paused nothing is acknowledged, not even what the server shows: it may
// be in its memory only.
func TestAPausedLogAcknowledgesNothing(t *testing.T) {
	ctx := ledgertest.Within(t)
	l, err := Open(ctx, stream(t, ledgerConn(t)), Config{Create: true, Ledger: "L"})
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte("record")
	send := l.send
	l.send = func(ctx context.Context, subject string, expect uint64, payload []byte, hash string) (uint64, error) {
		if _, err := send(ctx, subject, expect, payload, hash); err != nil {
			t.Error(err)
		}
		l.Pause(errPaused) // the server shows the record, and its answer is lost
		return 0, context.DeadlineExceeded
	}
	if _, err := l.Append(ctx, subjectA, 0, payload); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Errorf("append with a lost answer: %v, want indeterminate", err)
	}
	l.send = send
	if _, err := l.Append(ctx, subjectA, 0, payload); !errors.Is(err, errPaused) || errors.Is(err, ledger.ErrIndeterminate) {
		t.Errorf("append: %v, want that it is refused", err)
	}
	if _, err := l.State(ctx); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("state: %v, want unavailable", err)
	}
	if err := l.Blobs().PutBlob(ctx, "t", turns.Hash{1}, payload); !errors.Is(err, errPaused) {
		t.Errorf("put blob: %v, want that it is refused", err)
	}
	l.Resume()
	if seq, err := l.Append(ctx, subjectA, 0, payload); err != nil || seq != 1 {
		t.Errorf("the same append after Resume: %d, %v; want the record that is stored", seq, err)
	}
	if err := l.Blobs().PutBlob(ctx, "t", turns.Hash{1}, payload); err != nil {
		t.Error(err)
	}
	l.Pause(errPaused)
	if err := l.Blobs().PutBlob(ctx, "t", turns.Hash{1}, payload); !errors.Is(err, errPaused) {
		t.Errorf("put a blob that the server shows: %v, want that it is refused", err)
	}
}

// A write that was under way when the log was paused is not acknowledged, though the log goes
// on before its answer is taken: its record may be gone, and its position another record's.
func TestAWriteUnderAPauseIsNotAcknowledged(t *testing.T) {
	var acked []mark.Place
	ctx := ledgertest.Within(t)
	l, err := Open(ctx, stream(t, ledgerConn(t)), Config{Create: true, Ledger: "L", Acked: func(log, blobs mark.Place) { acked = append(acked, log, blobs) }})
	if err != nil {
		t.Fatal(err)
	}
	send := l.send
	l.send = func(ctx context.Context, subject string, expect uint64, payload []byte, hash string) (uint64, error) {
		seq, err := send(ctx, subject, expect, payload, hash)
		l.Pause(errPaused)
		l.Resume()
		return seq, err
	}
	if _, err := l.Append(ctx, subjectA, 0, []byte("record")); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Errorf("append: %v, want indeterminate", err)
	}
	l.send = send
	b := l.Blobs()
	era, calls := b.era, 0
	b.era = func() uint64 { // a pause after each first look
		calls++
		return era() + uint64(calls)
	}
	if err := b.PutBlob(ctx, "t", turns.Hash{1}, []byte("blob")); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Errorf("put blob: %v, want indeterminate", err)
	}
	if err := b.KeepBlob(ctx, "t", turns.Hash{1}); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("keep blob: %v, want unavailable", err)
	}
	if len(acked) > 0 {
		t.Errorf("acknowledged: %v", acked)
	}
	b.era = era
	if seq, err := l.Append(ctx, subjectA, 0, []byte("record")); err != nil || seq != 1 {
		t.Errorf("the same append again: %d, %v; want the record that is stored", seq, err)
	}
	if err := b.PutBlob(ctx, "t", turns.Hash{1}, []byte("blob")); err != nil {
		t.Errorf("the same blob again: %v", err)
	}
}
