package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/turns"
)

// Last implements [ledger.Log]. The stream has no direct access, so that every
// read goes to the leader.
func (l *Log) Last(ctx context.Context, subject string) (ledger.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := l.stream.GetLastMsgForSubject(ctx, subject)
	return l.record(ctx, m, err, "last record of "+subject)
}

// Get implements [ledger.Log].
func (l *Log) Get(ctx context.Context, seq uint64) (ledger.Record, error) {
	if seq == 0 {
		return ledger.Record{}, fmt.Errorf("%w: record 0", ledger.ErrNotFound)
	}
	m, err := l.get(ctx, seq)
	if errors.Is(err, js.ErrMsgNotFound) {
		// The server says so too of a record that is there and can't be read.
		if st, serr := l.State(ctx); serr != nil {
			err = serr
		} else if seq <= st.Last {
			if m, err = l.getAgain(ctx, seq); errors.Is(err, js.ErrMsgNotFound) {
				return ledger.Record{}, fmt.Errorf("%w: no record %d, though the log ends at %d", ledger.ErrCorrupt, seq, st.Last)
			}
		}
	}
	return l.record(ctx, m, err, fmt.Sprintf("record %d", seq))
}

func (l *Log) get(ctx context.Context, seq uint64) (*js.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return l.stream.GetMsg(ctx, seq)
}

// getAgain reads a record that the log has and that was not found. In a cluster a
// deposed leader may have answered: it asks again as [Log.State] does.
func (l *Log) getAgain(ctx context.Context, seq uint64) (m *js.RawStreamMsg, err error) {
	m, err = l.get(ctx, seq)
	if l.copies == 1 {
		return m, err
	}
	limited, cancel := context.WithTimeout(ctx, l.agree)
	defer cancel()
	for pause := newPause(100*time.Millisecond, 2*time.Second); err != nil && pause.wait(limited); {
		if m, again := l.get(limited, seq); again == nil || limited.Err() == nil {
			if err = again; err == nil {
				return m, nil
			}
		}
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return m, err
}

// record returns the record of a message that was read, once it is on the disk: nobody
// may act on one that a power cut takes away.
func (l *Log) record(ctx context.Context, m *js.RawStreamMsg, err error, what string) (ledger.Record, error) {
	if err == nil {
		err = l.onDisk(ctx, m.Sequence)
	}
	if err != nil {
		return ledger.Record{}, fmt.Errorf("%s: %w", what, readError(err))
	}
	return checked(m.Sequence, m.Subject, m.Data, m.Header.Get(hashHeader), m.Time)
}

// onDisk waits until the record at seq is on the disk. [ledger.ErrUnavailable]: its
// fsync failed.
func (l *Log) onDisk(ctx context.Context, seq uint64) error {
	if err := l.sync.Wait(ctx, seq); err != nil {
		return fmt.Errorf("%w: %v", ledger.ErrUnavailable, err) // a read is never indeterminate
	}
	return nil
}

// CheckRecord returns the record of a message of the log as it is stored, with its
// headers as they are on the wire. [ledger.ErrCorrupt]: it is no record, or another
// hash is stored beside it.
func CheckRecord(seq uint64, subject string, header, payload []byte, stored time.Time) (ledger.Record, error) {
	h, err := nats.DecodeHeadersMsg(header)
	if err != nil {
		return ledger.Record{}, fmt.Errorf("%w: record %d of %s: %w", ledger.ErrCorrupt, seq, subject, err)
	}
	return checked(seq, subject, payload, h.Get(hashHeader), stored)
}

// SyncedBefore returns a position of its stream that was on the disk before a record or
// chunk with this header was sent; 0 if the header tells none. An append expects a
// tail that nobody knows before its fsync; a chunk says it.
func SyncedBefore(header []byte) uint64 {
	h, err := nats.DecodeHeadersMsg(header)
	if err != nil {
		return 0
	}
	expected, _ := strconv.ParseUint(h.Get(expectHeader), 10, 64)
	synced, _ := strconv.ParseUint(h.Get(syncedHeader), 10, 64)
	return max(expected, synced)
}

// LogHeader is the header, as on the wire, that a record with this payload is stored
// with, but for the expectation of its append, which only the append needs.
func LogHeader(payload []byte) []byte {
	return []byte("NATS/1.0\r\n" + hashHeader + ": " + turns.HashEvent(payload).String() + "\r\n\r\n")
}

// checked compares the hash beside a payload with the payload's.
func checked(seq uint64, subject string, data []byte, beside string, stored time.Time) (ledger.Record, error) {
	r := ledger.Record{Seq: seq, Subject: subject, Payload: data, Stored: stored, Hash: turns.HashEvent(data), Hashed: true}
	if beside != r.Hash.String() {
		return r, fmt.Errorf("%w: record %d of %s has hash %v, stored beside it is %q", ledger.ErrCorrupt, seq, subject, r.Hash, beside)
	}
	return r, nil
}
