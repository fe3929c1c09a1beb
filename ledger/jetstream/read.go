package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/turns"
)

// Last implements [ledger.Log]. The stream has no direct access, so that every
// read goes to the leader.
func (l *Log) Last(ctx context.Context, subject string) (ledger.Record, error) {
	m, err := l.stream.GetLastMsgForSubject(ctx, subject)
	return record(m, err, "last record of "+subject)
}

// Next implements [ledger.Log].
func (l *Log) Next(ctx context.Context, subject string, after uint64) (ledger.Record, error) {
	m, err := l.stream.GetMsg(ctx, after+1, js.WithGetMsgSubject(subject))
	return record(m, err, fmt.Sprintf("record of %s after %d", subject, after))
}

// Get implements [ledger.Log].
func (l *Log) Get(ctx context.Context, seq uint64) (ledger.Record, error) {
	if seq == 0 {
		return ledger.Record{}, fmt.Errorf("%w: record 0", ledger.ErrNotFound)
	}
	m, err := l.stream.GetMsg(ctx, seq)
	return record(m, err, fmt.Sprintf("record %d", seq))
}

func record(m *js.RawStreamMsg, err error, what string) (ledger.Record, error) {
	switch {
	case errors.Is(err, js.ErrMsgNotFound):
		return ledger.Record{}, fmt.Errorf("%w: %s", ledger.ErrNotFound, what)
	case err != nil:
		return ledger.Record{}, fmt.Errorf("%w: %s: %w", ledger.ErrUnavailable, what, err)
	}
	return checked(m.Sequence, m.Subject, m.Data, m.Header, m.Time)
}

// checked compares the hash beside a payload with the payload's.
func checked(seq uint64, subject string, data []byte, h nats.Header, stored time.Time) (ledger.Record, error) {
	r := ledger.Record{Seq: seq, Subject: subject, Payload: data, Stored: stored, Hash: turns.HashEvent(data)}
	if beside := h.Get(hashHeader); beside != r.Hash.String() {
		return r, fmt.Errorf("%w: record %d of %s has hash %v, stored beside it is %q", ledger.ErrCorrupt, seq, subject, r.Hash, beside)
	}
	return r, nil
}

// Batches of a consumer: large while catching up, small at the end, where each
// record is on its own anyway.
const (
	replayBatch = 5000
	liveBatch   = 500
)

// Read implements [ledger.Log]. It uses an ordered consumer, which keeps no
// state on the server and sets itself up again after a reconnect.
func (l *Log) Read(ctx context.Context, from uint64, follow bool) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		st, err := l.State(ctx)
		if err == nil && from > st.Last+1 {
			// A consumer that starts past the end skips what is stored there later.
			err = fmt.Errorf("%w: read from %d, the log ends at %d", ledger.ErrCorrupt, from, st.Last)
		}
		if err != nil {
			if !follow || ctx.Err() == nil {
				yield(ledger.Record{}, err)
			}
			return
		}
		if !follow && from > st.Last {
			return
		}
		l.read(ctx, max(from, 1), st.Last, follow, yield)
	}
}

func (l *Log) read(ctx context.Context, next, end uint64, follow bool, yield func(ledger.Record, error) bool) {
	fail := func(err error) {
		if follow && ctx.Err() != nil {
			return
		}
		yield(ledger.Record{}, err)
	}
	c, err := l.stream.OrderedConsumer(ctx, js.OrderedConsumerConfig{DeliverPolicy: js.DeliverByStartSequencePolicy, OptStartSeq: next})
	if err != nil {
		fail(fmt.Errorf("%w: read the log from %d: %w", ledger.ErrUnavailable, next, err))
		return
	}
	batch := liveBatch
	if end > next+replayBatch {
		batch = replayBatch
	}
	ms, err := c.Messages(js.PullMaxMessages(batch))
	if err != nil {
		fail(fmt.Errorf("%w: read the log from %d: %w", ledger.ErrUnavailable, next, err))
		return
	}
	stop := context.AfterFunc(ctx, ms.Stop)
	defer func() {
		stop()
		ms.Stop()
	}()
	for follow || next <= end {
		m, err := ms.Next()
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			fail(fmt.Errorf("%w: read the log at %d: %w", ledger.ErrUnavailable, next, err))
			return
		}
		meta, err := m.Metadata()
		if err != nil {
			fail(fmt.Errorf("%w: record without metadata: %w", ledger.ErrCorrupt, err))
			return
		}
		if meta.Sequence.Stream != next {
			fail(fmt.Errorf("%w: record %d follows %d", ledger.ErrCorrupt, meta.Sequence.Stream, next-1))
			return
		}
		r, err := checked(next, m.Subject(), m.Data(), m.Headers(), meta.Timestamp)
		if !yield(r, err) || err != nil {
			return
		}
		next++
	}
}
